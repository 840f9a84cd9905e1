import { createHash } from "node:crypto";
import { readdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { silentLogger } from "../base/log.js";
import type { PathGuard } from "../files/path-guard.js";
import { hasCode, UndoConflictError } from "../ports/errors.js";
import type {
  ChangeOrigin,
  ExpectedChange,
  FileHistory,
  FileRecorder,
  LastUndo,
  RestoreRequest,
  UndoMark,
  UndoneFile,
} from "../ports/file-history.js";
import type { Logger } from "../ports/logger.js";
import { guardForChange, type FileToolOptions } from "../tools/files/files.js";
import {
  restoreFiles,
  discardTemporary,
  eachOf,
  temporaryPath,
  type RestoreOptions,
  type Progress,
} from "./restore-files.js";
import type { ChangeLine, PathChange, JournalContents } from "./journal.js";
import { planOf, type PlannedPath } from "./plan.js";
import { blockedOf, currentOf, judge, LOST, reasonOf, type PathToRemove, type RestoreCheck } from "./restore.js";
import { isSame, knownOf, SessionFiles } from "./session-files.js";

const DAY_MS = 86_400_000;
/** Default retention after the last change of a session. */
const KEPT_MS = 30 * DAY_MS;
const SESSION_BYTES = 512 * 1024 * 1024;
/** Maximum sessions whose journal is cached. */
const AT_HAND = 64;
const HALF = "; a part of it is done: another undo goes on with it, a redo takes it back";
const BEYOND = "what is kept of this session does not go back so far";

/** Options of `FolderHistory`. All paths are absolute. */
export interface FolderHistoryOptions extends Omit<FileToolOptions, "allowPaths" | "deniedPaths"> {
  allowPaths?: readonly string[] | undefined;
  deniedPaths?: readonly string[] | undefined;
  /**
   * Folder of the history, with one subfolder per session. It holds copies of files, so that only the user should be
   * able to read it.
   */
  folder: string;
  /** Maximum bytes of copies per session. The newest are kept. Default: 512 MiB. */
  sessionBytes?: number | undefined;
  /** Retention after the last change of a session, in ms. Default: 30 days. */
  keptMs?: number | undefined;
  logger?: Logger | undefined;
}

/** Records the state of files before tools change them, in a local folder. */
export class FolderHistory implements FileHistory {
  readonly #options: FolderHistoryOptions;
  readonly #logger: Logger;
  readonly #sessions = new Map<string, SessionFiles>();

  constructor(options: FolderHistoryOptions) {
    this.#options = options;
    this.#logger = options.logger ?? silentLogger;
  }

  keeper(place: ChangeOrigin): FileRecorder {
    return { record: (changes) => this.#of(place.sessionId).keeper(place).record(changes) };
  }

  async restore(request: RestoreRequest): Promise<UndoneFile[]> {
    const { sessionId, projectDir, target: behind, expected = [], dryRun, force } = request;
    const kept = this.#of(sessionId);
    const story = await kept.story();
    let isOpen = false;
    const plan = planOf(story, (line) => {
      isOpen ||= "seq" in behind ? line.seq > behind.seq : line.undo === behind.undo;
      return isOpen;
    });
    const { allowPaths = [], deniedPaths = [], ...rules } = this.#options;
    const folders = [...new Set(story.changes.flatMap((line) => line.folders))];
    const guard = await guardForChange({ ...rules, allowPaths, deniedPaths }, { projectDir, folders });
    const files: UndoneFile[] = missingOf(story, plan, expected);
    const judged: RestoreCheck[] = [];
    if ("seq" in behind && behind.seq < story.forgot)
      files.push(...plan.map(({ path }) => ({ path, outcome: "lost", why: BEYOND }) as const));
    else {
      const isKept = async (hash: string): Promise<boolean> => (await kept.content(hash, story)) !== undefined;
      const goes = goingOf(plan, story);
      const blocked = await blockedOf(plan, guard);
      await eachOf(plan, async (wanted) => {
        const one = await judge(wanted, { guard, goes, blocked, isKept, force });
        if (one) judged.push(one);
      });
    }
    files.push(...judged.flatMap(({ file, wanted }) => (wanted.isTold || isInTheWay(file) ? [file] : [])));
    files.sort(byPath);
    if (dryRun) return files;
    if (files.some(({ outcome }) => outcome === "conflict" || (!force && isLeft(outcome))))
      throw new UndoConflictError(files);
    const todo = judged.filter(({ file }) => !isLeft(file.outcome)).sort((a, b) => byPath(a.file, b.file));
    await this.#bring(todo, { request, files, kept, guard, folders, story });
    return files;
  }

  /**
   * Applies the checked plan completely, or rolls it back and throws `UndoConflictError`. If the rollback fails, the
   * error says that a part is done.
   */
  async #bring(todo: readonly RestoreCheck[], { request, files, kept, guard, folders, story }: Work): Promise<void> {
    const { sessionId, mark: mark, undo, seq } = request;
    // With nothing to restore, no undo is recorded.
    if (todo.length === 0 && mark.snapshotId === "") return;
    const before = story.undos.get(mark.id);
    await discardOf(story, guard);
    const paths = new Set(todo.map(({ file }) => file.path));
    const steps = await Promise.all(
      todo.map(async ({ wanted, current }): Promise<PathChange> => {
        const { path, want } = wanted;
        const made = current.kind === "none" ? await missingAbove(guard, path, paths) : 0;
        return { path, before: current, after: want, made, ...(!wanted.isTold && { isWay: true }) };
      }),
    );
    const refuse = (path: string, why: string): never => {
      const failed = { path, outcome: "failed", why } as const;
      throw new UndoConflictError([...files.filter((file) => file.path !== path), failed].sort(byPath));
    };
    let copied = "";
    const begun = kept.begin({ mark, undo, seq, folders, steps }, async ({ path, before: known }) => {
      copied = path;
      const { state: now } = await currentOf(guard, path);
      if (now.kind === "file" && now.content && isSame(knownOf(now), known)) return now.content;
      return refuse(path, "somebody else changed it just now");
    });
    const change = await begun.catch((error: unknown) => {
      if (hasCode(error, "undo_conflict") || copied === "") throw error;
      return refuse(copied, `no copy of what is there now could be kept: ${reasonOf(error)}`);
    });
    const whole = await kept.story();
    const bringing: RestoreOptions = {
      ...{ guard, change },
      contentOf: async (hash) => {
        const content = await kept.content(hash, whole);
        if (!content) throw new Error(LOST);
        return content;
      },
    };
    const progress: Progress = { done: [], failed: [] };
    try {
      const marks = new Map(todo.map(({ file, mark }) => [file.path, mark]));
      await restoreFiles(steps, { ...bringing, marks }, progress);
      if (steps.length > 0) kept.done(change);
    } catch (error) {
      const back = await takenBack(progress, bringing);
      // An undo that was still open before stays open, and a later undo resumes it.
      if (back && before?.isOpen === false) await this.mark(sessionId, before);
      else if (back && !before) await this.mark(sessionId, { redone: mark.id });
      refuse(progress.failed[0]?.path ?? "", `${reasonOf(error)}${back ? "" : HALF}`);
    }
  }

  async mark(sessionId: string, mark: UndoMark | { readonly redone: string }): Promise<void> {
    await this.#of(sessionId).mark(mark);
  }

  async lastUndo(sessionId: string): Promise<LastUndo | undefined> {
    const { undos, redone, changes } = await this.#of(sessionId).story();
    const last = [...undos.values()].findLast(({ id }) => !redone.has(id));
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
    // Moves the session to the end: the least recently used session is removed first.
    this.#sessions.delete(sessionId);
    this.#sessions.set(sessionId, kept);
    const [oldest] = this.#sessions.keys();
    if (this.#sessions.size > AT_HAND && oldest !== undefined) this.#sessions.delete(oldest);
    return kept;
  }

  /** Ids from a third-party store are hashed, because they may not be valid as a folder name. */
  #folderOf(sessionId: string): string {
    const isPlain = /^[a-zA-Z0-9-]{1,80}$/.test(sessionId);
    return join(this.#options.folder, isPlain ? sessionId : `_${createHash("sha256").update(sessionId).digest("hex")}`);
  }
}

/** Reverts a failed undo. Returns whether every file is as it was before the undo. */
async function takenBack({ done, failed }: Progress, bringing: RestoreOptions): Promise<boolean> {
  const reversed = ({ path, before, after, made }: PathChange): PathChange => ({
    path,
    before: after,
    after: before,
    made,
  });
  try {
    // A failed step may have removed the old file without writing the new one.
    const away = failed.filter(({ before }) => before.kind !== "none");
    const gone: PathChange[] = [];
    for (const step of away)
      if ((await currentOf(bringing.guard, step.path)).state.kind === "none")
        gone.push({ ...step, before: { kind: "none" }, after: step.before });
    const steps = [...done.map(reversed), ...gone].sort(byPath);
    await restoreFiles(steps, bringing, { done: [], failed: [] });
    return true;
  } catch {
    return false;
  }
}

/** Input of the apply step: the request and the results of the check. */
interface Work {
  request: RestoreRequest;
  files: readonly UndoneFile[];
  kept: SessionFiles;
  guard: PathGuard;
  folders: readonly string[];
  story: JournalContents;
}

/** Expected changes that the history never recorded. Each is reported with the outcome `lost`. */
function missingOf(
  story: JournalContents,
  plan: readonly PlannedPath[],
  expected: readonly ExpectedChange[],
): UndoneFile[] {
  const known = new Set(plan.map(({ path }) => path));
  const calls = new Set(story.changes.flatMap(({ call, steps }) => steps.map(({ path }) => `${call} ${path}`)));
  const paths = expected.flatMap(({ callId, path }) =>
    known.has(path) || calls.has(`${callId} ${path}`) ? [] : [path],
  );
  return [...new Set(paths)].map((path) => ({ path, outcome: "lost", why: LOST }));
}

/** Changes of undos that failed or were killed. */
function brokenOff({ changes, done }: JournalContents): ChangeLine[] {
  return changes.filter(({ undo, change }) => undo !== "" && !done.has(change));
}

/** Paths that the plan removes, plus temporary files of interrupted undos. */
function goingOf(plan: readonly PlannedPath[], story: JournalContents): PathToRemove {
  const goes = plan.filter(({ want }) => want.kind === "none");
  const paths = (isWay: boolean) => goes.flatMap((one) => (one.isWay === isWay ? [one.path] : []));
  const halves = brokenOff(story).flatMap(({ change, steps }) => steps.map(({ path }) => temporaryPath(path, change)));
  return { paths: new Set([...paths(false), ...halves]), folders: new Set(paths(true)) };
}

async function discardOf(story: JournalContents, guard: PathGuard): Promise<void> {
  for (const { change, steps } of brokenOff(story))
    await eachOf(steps, ({ path }) => discardTemporary(guard, path, change));
}

/** Counts the missing parent folders of a path that the plan does not restore separately. */
async function missingAbove(guard: PathGuard, path: string, paths: ReadonlySet<string>): Promise<number> {
  let missing = 0;
  for (let at = dirname(path); !paths.has(at) && dirname(at) !== at; at = dirname(at), missing++) {
    const folder = await guard.openFolder(at).catch(() => undefined);
    await folder?.close();
    if (folder) break;
  }
  return missing;
}

function isInTheWay({ outcome }: UndoneFile): boolean {
  return outcome === "conflict" || isLeft(outcome);
}

function isLeft(outcome: UndoneFile["outcome"]): boolean {
  return outcome === "lost" || outcome === "failed";
}

function byPath(a: { readonly path: string }, b: { readonly path: string }): number {
  return a.path < b.path ? -1 : 1;
}
