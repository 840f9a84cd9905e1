import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { isRecord, parseJson } from "../base/json.js";
import { newId } from "../base/ids.js";
import { isInside } from "../files/names.js";
import type { LeaseHolder } from "../ports/holder.js";
import { currentHolder, holderState } from "../sessions/holder.js";

/** The stored data of a worktree. All paths are absolute. */
export interface WorktreeRecord {
  /** Root of the worktree: a copy of the repository's root. */
  readonly root: string;
  /** Folder of the sessions, in `root`. */
  readonly folder: string;
  /** Git folder of the worktree, in the repository. `""` until Git has created it. */
  readonly gitFolder: string;
  /** Root, project folder and Git folder of the copied repository. */
  readonly source: { readonly root: string; readonly projectDir: string; readonly gitFolder: string };
  /** Id of the copied commit. */
  readonly base: string;
  /** Id of the tree that was last applied to the project folder. `""`: none. */
  readonly appliedTree: string;
}

const RECORD_FILE = "worktree.json";
/** Exists while no session may be stored for the worktree. Names the process that creates or deletes the session. */
const PENDING_FILE = "pending.json";
/** Folder of gantry's own files, beside the root of the worktree. */
const OWN_FOLDER = ".gantry";
const ID_PATTERN = /^[0-9a-f-]{36}$/;

/** The folder of one worktree: its root, and gantry's own files, which commands in the worktree cannot change. */
export class WorktreeStorage {
  /** Absolute path. */
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /** Reserves a new folder below `parent`, marked as pending. Rejects with the system's error. */
  static async create(parent: string): Promise<WorktreeStorage> {
    const storage = new WorktreeStorage(join(parent, newId()));
    await mkdir(storage.path, { mode: 0o700 });
    await mkdir(storage.getOwnPath(), { mode: 0o700 });
    await storage.setPending(true);
    return storage;
  }

  /** Returns the folder that contains a path, which lies below `parent`. Undefined for other paths. */
  static find(parent: string, path: string): WorktreeStorage | undefined {
    const [id = ""] = isInside(path, parent) ? relative(parent, path).split(sep) : [];
    return ID_PATTERN.test(id) ? new WorktreeStorage(join(parent, id)) : undefined;
  }

  /** Lists all folders below `parent`. */
  static async list(parent: string): Promise<WorktreeStorage[]> {
    const names = await readdir(parent).catch(() => []);
    return names.filter((name) => ID_PATTERN.test(name)).map((name) => new WorktreeStorage(join(parent, name)));
  }

  /** Returns the path of one of gantry's own files. */
  getOwnPath(name = ""): string {
    return join(this.path, OWN_FOLDER, name);
  }

  /** Undefined if the record is missing or damaged. */
  async read(): Promise<WorktreeRecord | undefined> {
    const record = await readJson(this.getOwnPath(RECORD_FILE));
    return isRecord(record) && typeof record["root"] === "string" && isRecord(record["source"])
      ? (record as unknown as WorktreeRecord)
      : undefined;
  }

  /** Replaces the record as a whole. Rejects with the system's error. */
  async write(record: WorktreeRecord): Promise<void> {
    const path = this.getOwnPath(RECORD_FILE);
    await writeFile(`${path}.new`, JSON.stringify(record, null, 2), { mode: 0o600 });
    await rename(`${path}.new`, path);
  }

  /** Marks that this process is about to store or to delete the session, or removes the mark. */
  async setPending(isPending: boolean): Promise<void> {
    const path = this.getOwnPath(PENDING_FILE);
    if (isPending) await writeFile(path, JSON.stringify(currentHolder()), { mode: 0o600 });
    else await rm(path, { force: true });
  }

  /** Whether a process has ended before it could store or delete the session. */
  async isAbandoned(): Promise<boolean> {
    const holder = await readJson(this.getOwnPath(PENDING_FILE));
    return isRecord(holder) && holderState(holder as unknown as LeaseHolder) === "dead";
  }
}

async function readJson(path: string): Promise<unknown> {
  try {
    return parseJson(await readFile(path, "utf8"));
  } catch {
    return undefined;
  }
}
