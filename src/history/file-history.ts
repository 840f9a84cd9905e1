import { createHash } from "node:crypto";
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { silentLogger } from "../base/log.js";
import type {
  ChangePlace,
  FileHistory,
  FileKeeper,
  RestoreRequest,
  UndoMark,
  UndoneFile,
} from "../ports/file-history.js";
import type { Logger } from "../ports/logger.js";
import { guardForChange, type FileToolOptions } from "../tools/files.js";
import { planOf } from "./plan.js";
import { bringBack, judge, type Judged } from "./restore.js";
import { SessionFiles } from "./session-files.js";

const DAY_MS = 86_400_000;
/** What was not written to for so long goes. */
const KEPT_MS = 30 * DAY_MS;
const SESSION_BYTES = 512 * 1024 * 1024;
/** Sessions whose journal is kept at hand. */
const AT_HAND = 64;
const BEYOND = "what is kept of this session does not go back so far";

/** What `FolderHistory` takes; paths are absolute. */
export interface FolderHistoryOptions extends Partial<FileToolOptions> {
  /** Kept here, a folder a session. Nobody else should read it: it holds copies of files. */
  folder: string;
  /** Bytes of copies that are kept of one session, the newest; default 512 MiB. */
  sessionBytes?: number;
  /** How long they are kept after the last change, in ms; default 30 days. */
  keptMs?: number;
  logger?: Logger;
}

/** Keeps what files were before tools changed them, in a folder of this machine. */
export class FolderHistory implements FileHistory {
  readonly #options: FolderHistoryOptions;
  readonly #logger: Logger;
  readonly #sessions = new Map<string, SessionFiles>();

  constructor(options: FolderHistoryOptions) {
    this.#options = options;
    this.#logger = options.logger ?? silentLogger;
  }

  keeper(place: ChangePlace): FileKeeper {
    return {
      keep: (changes) =>
        this.#of(place.sessionId)
          .keeper({ ...place, undo: "" })
          .keep(changes),
    };
  }

  async restore(request: RestoreRequest): Promise<UndoneFile[]> {
    const { sessionId, projectDir, behind, undo, seq, dryRun, force } = request;
    const kept = this.#of(sessionId);
    const story = await kept.story();
    let isOpen = false;
    const plan = planOf(story, (line) => {
      isOpen ||= "seq" in behind ? line.seq > behind.seq : line.undo === behind.undo;
      return isOpen;
    });
    if ("seq" in behind && behind.seq < story.forgot)
      return plan.map(({ path }) => ({ path, outcome: "lost", why: BEYOND }));
    const { allowPaths = [], deniedPaths = [], ...rules } = this.#options;
    const folders = [...new Set(story.changes.flatMap((line) => line.folders))];
    const guard = await guardForChange({ ...rules, allowPaths, deniedPaths }, { projectDir, folders });
    const judged: Judged[] = [];
    for (const wanted of plan) {
      const one = await judge(guard, wanted, (hash) => kept.content(hash), force);
      if (one) judged.push(one);
    }
    if (dryRun || judged.some(({ file }) => file.outcome === "conflict")) return judged.map(({ file }) => file);
    const keeper = kept.keeper({ sessionId, runId: "", callId: "", seq, folders, undo });
    const done = new Map<Judged, UndoneFile>();
    for (const one of inOrder(judged)) {
      const { outcome } = one.file;
      const isLeft = outcome === "lost" || outcome === "failed";
      done.set(one, isLeft ? one.file : await bringBack(guard, one, keeper));
    }
    return judged.map((one) => done.get(one) ?? one.file);
  }

  async mark(sessionId: string, mark: UndoMark | { readonly redone: string }): Promise<void> {
    await this.#of(sessionId).mark(mark);
  }

  async lastUndo(sessionId: string): Promise<UndoMark | undefined> {
    const { undone, redone, changes } = await this.#of(sessionId).story();
    const last = undone.findLast(({ id }) => !redone.has(id));
    if (!last || changes.slice(last.changes).some(({ undo }) => undo === "")) return undefined;
    return last;
  }

  async forget(sessionId: string): Promise<void> {
    const kept = this.#sessions.get(sessionId);
    this.#sessions.delete(sessionId);
    await kept?.[Symbol.asyncDispose]();
    await rm(this.#folderOf(sessionId), { recursive: true, force: true });
  }

  async sweep(): Promise<void> {
    const { folder, keptMs = KEPT_MS } = this.#options;
    for (const name of await readdir(folder).catch(() => [])) {
      const path = join(folder, name);
      try {
        const { mtimeMs } = await stat(join(path, "journal.jsonl")).catch(() => stat(path));
        if (Date.now() - mtimeMs > keptMs) await rm(path, { recursive: true, force: true });
      } catch (error) {
        this.#logger.debug("old copies of files were not removed", { error });
      }
    }
  }

  #of(sessionId: string): SessionFiles {
    const known = this.#sessions.get(sessionId);
    const { sessionBytes = SESSION_BYTES } = this.#options;
    const kept = known ?? new SessionFiles(this.#folderOf(sessionId), sessionBytes, this.#logger);
    // Last used, last gone.
    this.#sessions.delete(sessionId);
    this.#sessions.set(sessionId, kept);
    const [oldest] = this.#sessions.keys();
    if (this.#sessions.size > AT_HAND && oldest !== undefined) this.#sessions.delete(oldest);
    return kept;
  }

  /** An id that a stranger's store gave is no path. */
  #folderOf(sessionId: string): string {
    const isPlain = /^[a-zA-Z0-9-]{1,80}$/.test(sessionId);
    return join(this.#options.folder, isPlain ? sessionId : `_${createHash("sha256").update(sessionId).digest("hex")}`);
  }
}

/** What goes, from the deepest up; then what comes back, folders before what is in them. */
function inOrder(judged: readonly Judged[]): Judged[] {
  const goes = judged.filter(({ wanted }) => wanted.want.kind === "none");
  const comes = judged.filter(({ wanted }) => wanted.want.kind !== "none");
  return [...goes.reverse(), ...comes];
}
