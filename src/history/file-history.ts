import { createHash } from "node:crypto";
import { readdir, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { silentLogger } from "../base/log.js";
import type { PathGuard } from "../files/path-guard.js";
import { hasCode, UndoConflictError } from "../ports/errors.js";
import type {
  ChangePlace,
  ExpectedChange,
  FileHistory,
  FileKeeper,
  LastUndo,
  RestoreRequest,
  UndoMark,
  UndoneFile,
} from "../ports/file-history.js";
import type { Logger } from "../ports/logger.js";
import { guardForChange, type FileToolOptions } from "../tools/files/files.js";
import { bringBack, discardTemporary, eachOf, temporaryPath, type Bringing, type Progress } from "./restore-files.js";
import type { ChangeLine, Step, Story } from "./journal.js";
import { planOf, type Wanted } from "./plan.js";
import { blockedOf, currentOf, judge, LOST, reasonOf, type Going, type Judged } from "./restore.js";
import { isSame, knownOf, SessionFiles } from "./session-files.js";

const DAY_MS = 86_400_000;
/** What was not written to for so long goes. */
const KEPT_MS = 30 * DAY_MS;
const SESSION_BYTES = 512 * 1024 * 1024;
/** Sessions whose journal is kept at hand. */
const AT_HAND = 64;
const HALF = "; a part of it is done: another undo goes on with it, a redo takes it back";
const BEYOND = "what is kept of this session does not go back so far";

/** What `FolderHistory` takes; paths are absolute. */
export interface FolderHistoryOptions extends Omit<FileToolOptions, "allowPaths" | "deniedPaths"> {
  allowPaths?: readonly string[] | undefined;
  deniedPaths?: readonly string[] | undefined;
  /** Kept here, a folder a session. Nobody else should read it: it holds copies of files. */
  folder: string;
  /** Bytes of copies that are kept of one session, the newest; default 512 MiB. */
  sessionBytes?: number | undefined;
  /** How long they are kept after the last change, in ms; default 30 days. */
  keptMs?: number | undefined;
  logger?: Logger | undefined;
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
    return { keep: (changes) => this.#of(place.sessionId).keeper(place).keep(changes) };
  }

  async restore(request: RestoreRequest): Promise<UndoneFile[]> {
    const { sessionId, projectDir, behind, expected = [], dryRun, force } = request;
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
    const judged: Judged[] = [];
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

  /** All of it, or nothing. */
  async #bring(todo: readonly Judged[], { request, files, kept, guard, folders, story }: Work): Promise<void> {
    const { sessionId, begins: mark, undo, seq } = request;
    // Nothing is begun where nothing is to be done.
    if (todo.length === 0 && mark.snapshotId === "") return;
    const before = story.undos.get(mark.id);
    await discardOf(story, guard);
    const paths = new Set(todo.map(({ file }) => file.path));
    const steps = await Promise.all(
      todo.map(async ({ wanted, current }): Promise<Step> => {
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
    const bringing: Bringing = {
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
      await bringBack(steps, { ...bringing, marks }, progress);
      if (steps.length > 0) kept.done(change);
    } catch (error) {
      const back = await takenBack(progress, bringing);
      // What is not ended stays open, and is gone on with.
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

/** Whether all is as it was before an undo that failed. */
async function takenBack({ done, failed }: Progress, bringing: Bringing): Promise<boolean> {
  const reversed = ({ path, before, after, made }: Step): Step => ({ path, before: after, after: before, made });
  try {
    // One that failed may have been taken away, and not been put there.
    const away = failed.filter(({ before }) => before.kind !== "none");
    const gone: Step[] = [];
    for (const step of away)
      if ((await currentOf(bringing.guard, step.path)).state.kind === "none")
        gone.push({ ...step, before: { kind: "none" }, after: step.before });
    const steps = [...done.map(reversed), ...gone].sort(byPath);
    await bringBack(steps, bringing, { done: [], failed: [] });
    return true;
  } catch {
    return false;
  }
}

/** What an undo is made of when it has been looked at. */
interface Work {
  request: RestoreRequest;
  files: readonly UndoneFile[];
  kept: SessionFiles;
  guard: PathGuard;
  folders: readonly string[];
  story: Story;
}

/** What calls told that they changed, and nobody kept. */
function missingOf(story: Story, plan: readonly Wanted[], expected: readonly ExpectedChange[]): UndoneFile[] {
  const known = new Set(plan.map(({ path }) => path));
  const calls = new Set(story.changes.flatMap(({ call, steps }) => steps.map(({ path }) => `${call} ${path}`)));
  const paths = expected.flatMap(({ callId, path }) =>
    known.has(path) || calls.has(`${callId} ${path}`) ? [] : [path],
  );
  return [...new Set(paths)].map((path) => ({ path, outcome: "lost", why: LOST }));
}

/** Undos that were killed, or failed. */
function brokenOff({ changes, done }: Story): ChangeLine[] {
  return changes.filter(({ undo, change }) => undo !== "" && !done.has(change));
}

/** What goes where a plan is carried out, and what an undo left half written when it was killed. */
function goingOf(plan: readonly Wanted[], story: Story): Going {
  const goes = plan.filter(({ want }) => want.kind === "none");
  const paths = (isWay: boolean) => goes.flatMap((one) => (one.isWay === isWay ? [one.path] : []));
  const halves = brokenOff(story).flatMap(({ change, steps }) => steps.map(({ path }) => temporaryPath(path, change)));
  return { paths: new Set([...paths(false), ...halves]), folders: new Set(paths(true)) };
}

async function discardOf(story: Story, guard: PathGuard): Promise<void> {
  for (const { change, steps } of brokenOff(story))
    await eachOf(steps, ({ path }) => discardTemporary(guard, path, change));
}

/** How many of the folders that lead to a path are missing, and are not brought back themselves. */
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
