import { SessionNotFoundError } from "gantry";
import { createDeadline, openGit, type GitLocation } from "gantry/plugin";
import type { Context } from "koa";
import { createDisconnectController, sendJson, type ApiDependencies } from "./api.js";
import { resolveProjectFolder } from "./projects.js";
import { QueryParameters } from "./query.js";
import type { GitState } from "./shapes.js";

/** Maximum time of all Git commands of a request, in ms. */
const TIMEOUT_MS = 5_000;

type State = {
  branch: string | null;
  commit: string | null;
  detached: boolean;
  dirty: number;
  ahead: number | null;
  behind: number | null;
};

const NO_REPOSITORY: State = { branch: null, commit: null, detached: false, dirty: 0, ahead: null, behind: null };

/** `GET /api/git`. */
export async function showGitState(ctx: Context, { agent, options }: ApiDependencies): Promise<void> {
  const query = new QueryParameters(ctx);
  const sessionId = query.getText("session_id") || undefined;
  const session = sessionId === undefined ? undefined : await agent.sessions.get(sessionId);
  if (sessionId !== undefined && !session) throw new SessionNotFoundError(sessionId);
  const requestedDir = query.getText("project_dir") || undefined;
  const rules = { projectDir: agent.projectDir, roots: options.projectRoots, deniedPaths: options.deniedPaths };
  const folder =
    requestedDir === undefined
      ? (session?.projectDir ?? agent.projectDir)
      : await resolveProjectFolder(requestedDir, rules);
  const state = await readGitState(
    { folder, environment: options.environment },
    createDisconnectController(ctx).signal,
  );
  sendJson<typeof GitState>(ctx, { project_dir: folder, ...state });
}

/**
 * Reads the branch and the number of changed files. The answer without a repository applies also if Git is missing,
 * fails or is too slow.
 *
 * The repository is not trusted: no command from its settings runs.
 */
export async function readGitState(location: GitLocation, requestSignal: AbortSignal): Promise<State> {
  const deadline = createDeadline(TIMEOUT_MS, requestSignal);
  const { signal } = deadline;
  try {
    const git = await openGit(location, signal);
    const status = await git?.run(STATUS_ARGUMENTS, { signal });
    return status?.isSuccess ? parseStatus(status.stdout) : NO_REPOSITORY;
  } catch {
    return NO_REPOSITORY;
  } finally {
    deadline.clear();
  }
}

const STATUS_ARGUMENTS = [
  ...["status", "--porcelain=v2", "--branch", "--null", "--untracked-files=normal", "--no-renames"],
  // Git would run in the submodules with their own settings.
  ...["--ignore-submodules=all", "--", "."],
];

/** Parses the output of `git status --porcelain=v2 --branch --null`. */
function parseStatus(output: string): State {
  const entries = output.split("\0").filter((entry) => entry !== "");
  const readHeader = (name: string): string | undefined =>
    entries.find((entry) => entry.startsWith(`# branch.${name} `))?.slice(`# branch.${name} `.length);
  const [head, commit] = [readHeader("head"), readHeader("oid")];
  const [, ahead, behind] = /^\+(\d+) -(\d+)$/.exec(readHeader("ab") ?? "") ?? [];
  const isDetached = head === "(detached)";
  return {
    branch: isDetached ? null : (head ?? null),
    commit: commit === undefined || commit === "(initial)" ? null : commit,
    detached: isDetached,
    dirty: entries.filter((entry) => !entry.startsWith("#")).length,
    ahead: ahead === undefined ? null : Number(ahead),
    behind: behind === undefined ? null : Number(behind),
  };
}
