import { stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import type { SharedClock } from "../base/clock.js";
import { newId, now } from "../base/ids.js";
import { SharedReads } from "../base/shared-reads.js";
import { NO_USAGE } from "../conversation/usage.js";
import { InputError, ProjectFolderError } from "../ports/errors.js";
import type { Session } from "../ports/session.js";

/** Input for a session without messages. */
export interface NewSession {
  /** Absolute path of a folder. Default: the agent's own. */
  projectDir?: string | undefined;
  /** Default `New Session <timestamp>`. */
  title?: string | undefined;
  /** A second id that finds the session. Default: none. */
  alias?: string | undefined;
  /** Name of the user to whom the session belongs. Default: none. */
  owner?: string | undefined;
}

/**
 * Creates the record of a new original without messages; stores nothing. `projectDir`, `mode`: defaults. `store`: the
 * store that will contain it.
 */
export function createNewSession(
  input: NewSession,
  { projectDir, mode }: Pick<Session, "projectDir" | "mode">,
  store: SharedClock = {},
): Session {
  const id = newId();
  const createdAt = now(store);
  return {
    id,
    alias: input.alias ?? "",
    title: input.title ?? createInitialTitle(createdAt),
    hasFinalTitle: false,
    provider: "",
    model: "",
    reasoningEffort: "",
    mode,
    permissionGrants: [],
    rewinds: [],
    projectDir: input.projectDir ?? projectDir,
    parentId: "",
    spawnedBy: null,
    ...(input.owner !== undefined && { owner: input.owner }),
    chain: { root: id, index: 0 },
    lastSeq: 0,
    createdAt,
    updatedAt: createdAt,
    usage: NO_USAGE,
  };
}

/** Returns the title that a session has before a title is generated. */
export function createInitialTitle(createdAt: string): string {
  return `New Session ${createdAt}`;
}

const folderChecks = new SharedReads(async (path: string) => {
  const stats = await stat(path).catch(() => undefined);
  return stats?.isDirectory() === true;
});

/** Rejects with `InputError` for a relative path, and with `ProjectFolderError` if the folder does not exist. */
export async function checkFolder(path: string): Promise<void> {
  if (!isAbsolute(path)) throw new InputError("projectDir", "an absolute path");
  if (!(await folderChecks.get(path))) throw new ProjectFolderError();
}
