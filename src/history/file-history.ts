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
import { createChangeGuard, type FileToolOptions } from "../tools/files/files.js";
import {
  restoreFiles,
  discardTemporary,
  forEachConcurrently,
  temporaryPath,
  type RestoreOptions,
  type RestoreProgress,
} from "./restore-files.js";
import type { ChangeLine, PathChange, JournalContents } from "./journal.js";
import { planRestore, type PlannedPath } from "./plan.js";
import {
  findBlockedPaths,
  readCurrentState,
  checkPath,
  NOT_STORED_REASON,
  reasonOf,
  type PathsToRemove,
  type RestoreCheck,
} from "./restore.js";
import { isSame, toStoredState, SessionFiles } from "./session-files.js";

const DAY_MS = 86_400_000;
/** Default retention after the last change of a session. */
const RETENTION_MS = 30 * DAY_MS;
const DEFAULT_SESSION_BYTES = 512 * 1024 * 1024;
/** Maximum sessions whose journal is cached. */
const MAX_CACHED_SESSIONS = 64;
const PARTIAL_UNDO_NOTE = "; partly done: another undo continues it, a redo reverts it";
const HISTORY_TOO_SHORT_REASON = "the history of this session does not reach back that far";

/** Options of `FolderHistory`. All paths are absolute. */
export interface FolderHistoryOptions extends Omit<FileToolOptions, "allowPaths" | "deniedPaths"> {
  allowPaths?: readonly string[] | undefined;
  deniedPaths?: readonly string[] | undefined;
  /** Folder of the history, with one subfolder per session. Only the user should be able to read its copies. */
  folder: string;
  /** Maximum bytes of copies per session. The newest are kept. Default: 512 MiB. */
  sessionBytes?: number | undefined;
  /** Retention after the last change of a session, in ms. Default: 30 days. */
  retentionMs?: number | undefined;
  logger?: Logger | undefined;
}

/** Records the state of files before tools change them, in a local folder. */
export class FolderHistory implements FileHistory {
  readonly #options: FolderHistoryOptions;
  readonly #logger: Logger;
  readonly #sessionsById = new Map<string, SessionFiles>();

  constructor(options: FolderHistoryOptions) {
    this.#options = options;
    this.#logger = options.logger ?? silentLogger;
  }

  recorder(origin: ChangeOrigin): FileRecorder {
    return { record: (changes) => this.#openSession(origin.sessionId).createRecorder(origin).record(changes) };
  }

  async restore(request: RestoreRequest): Promise<UndoneFile[]> {
    const { sessionId, projectDir, target, expected = [], dryRun, force } = request;
    const sessionFiles = this.#openSession(sessionId);
    const journal = await sessionFiles.readJournal();
    let isAfterTarget = false;
    const plan = planRestore(journal, (line) => {
      isAfterTarget ||= "seq" in target ? line.seq > target.seq : line.undo === target.undo;
      return isAfterTarget;
    });
    const { allowPaths = [], deniedPaths = [], ...rules } = this.#options;
    const folders = [...new Set(journal.changes.flatMap((line) => line.folders))];
    const guard = await createChangeGuard({ ...rules, allowPaths, deniedPaths }, { projectDir, folders });
    const files: UndoneFile[] = findUnrecordedChanges(journal, plan, expected);
    const checks: RestoreCheck[] = [];
    if ("seq" in target && target.seq < journal.droppedSeq)
      files.push(...plan.map(({ path }) => ({ path, outcome: "lost", reason: HISTORY_TOO_SHORT_REASON }) as const));
    else {
      const isStored = async (hash: string): Promise<boolean> =>
        (await sessionFiles.readContent(hash, journal)) !== undefined;
      const pathsToRemove = findPathsToRemove(plan, journal);
      const blockedPaths = await findBlockedPaths(plan, guard);
      await forEachConcurrently(plan, async (plannedPath) => {
        const check = await checkPath(plannedPath, { guard, pathsToRemove, blockedPaths, isStored, force });
        if (check) checks.push(check);
      });
    }
    files.push(...checks.flatMap(({ file, plannedPath }) => (plannedPath.isReported || isProblem(file) ? [file] : [])));
    files.sort(comparePaths);
    if (dryRun) return files;
    if (files.some(({ outcome }) => outcome === "conflict" || (!force && isNotRestorable(outcome))))
      throw new UndoConflictError(files);
    const applicableChecks = checks
      .filter(({ file }) => !isNotRestorable(file.outcome))
      .sort((left, right) => comparePaths(left.file, right.file));
    await this.#applyRestore(applicableChecks, { request, files, sessionFiles, guard, folders, journal });
    return files;
  }

  /**
   * Applies the checked plan completely, or rolls it back and throws `UndoConflictError`. If the rollback fails, the
   * error says that a part is done.
   */
  async #applyRestore(
    checks: readonly RestoreCheck[],
    { request, files, sessionFiles, guard, folders, journal }: RestoreWork,
  ): Promise<void> {
    const { sessionId, mark, undo, seq } = request;
    // If there is nothing to restore, no undo is recorded.
    if (checks.length === 0 && mark.snapshotId === "") return;
    const previousMark = journal.undos.get(mark.id);
    await discardTemporaries(journal, guard);
    const paths = new Set(checks.map(({ file }) => file.path));
    const steps = await Promise.all(
      checks.map(async ({ plannedPath, current }): Promise<PathChange> => {
        const { path, targetState } = plannedPath;
        const missingFolderCount = current.kind === "none" ? await countMissingFolders(guard, path, paths) : 0;
        return {
          path,
          before: current,
          after: targetState,
          made: missingFolderCount,
          ...(!plannedPath.isReported && { isWay: true }),
        };
      }),
    );
    const throwConflict = (path: string, reason: string): never => {
      const failedFile = { path, outcome: "failed", reason } as const;
      throw new UndoConflictError([...files.filter((file) => file.path !== path), failedFile].sort(comparePaths));
    };
    let copiedPath = "";
    const changeId = sessionFiles.recordUndo(
      { mark, undo, seq, folders, steps },
      async ({ path, before: recordedState }) => {
        copiedPath = path;
        const { state: currentState } = await readCurrentState(guard, path);
        if (currentState.kind === "file" && currentState.content && isSame(toStoredState(currentState), recordedState))
          return currentState.content;
        return throwConflict(path, "another program changed it just now");
      },
    );
    const change = await changeId.catch((error: unknown) => {
      if (hasCode(error, "undo_conflict") || copiedPath === "") throw error;
      return throwConflict(copiedPath, `the current content could not be saved: ${reasonOf(error)}`);
    });
    const updatedJournal = await sessionFiles.readJournal();
    const restoreOptions: RestoreOptions = {
      ...{ guard, change },
      contentOf: async (hash) => {
        const content = await sessionFiles.readContent(hash, updatedJournal);
        if (!content) throw new Error(NOT_STORED_REASON);
        return content;
      },
    };
    const progress: RestoreProgress = { completedSteps: [], failedSteps: [] };
    try {
      const marks = new Map(checks.map(({ file, mark }) => [file.path, mark]));
      await restoreFiles(steps, { ...restoreOptions, marks }, progress);
      if (steps.length > 0) sessionFiles.confirmChange(change);
    } catch (error) {
      const isRolledBack = await rollBack(progress, restoreOptions);
      // An undo that was still open before stays open, and a later undo resumes it.
      if (isRolledBack && previousMark?.isOpen === false) await this.mark(sessionId, previousMark);
      else if (isRolledBack && !previousMark) await this.mark(sessionId, { redone: mark.id });
      throwConflict(progress.failedSteps[0]?.path ?? "", `${reasonOf(error)}${isRolledBack ? "" : PARTIAL_UNDO_NOTE}`);
    }
  }

  async mark(sessionId: string, mark: UndoMark | { readonly redone: string }): Promise<void> {
    await this.#openSession(sessionId).recordMark(mark);
  }

  async lastUndo(sessionId: string): Promise<LastUndo | undefined> {
    const { undos, redoneUndoIds, changes } = await this.#openSession(sessionId).readJournal();
    const lastUndo = [...undos.values()].findLast(({ id }) => !redoneUndoIds.has(id));
    if (!lastUndo || changes.slice(lastUndo.changes).some(({ undo }) => undo === "")) return undefined;
    return lastUndo;
  }

  async forget(sessionId: string): Promise<void> {
    const sessionFiles = this.#sessionsById.get(sessionId);
    this.#sessionsById.delete(sessionId);
    await sessionFiles?.[Symbol.asyncDispose]();
    await rm(this.#folderOf(sessionId), { recursive: true, force: true });
  }

  async sweep(): Promise<void> {
    const { folder, retentionMs: maxAgeMs = RETENTION_MS } = this.#options;
    for (const name of await readdir(folder).catch(() => [])) {
      const path = join(folder, name);
      try {
        const { mtimeMs } = await stat(join(path, "journal.jsonl")).catch(() => stat(path));
        if (Date.now() - mtimeMs > maxAgeMs) await rm(path, { recursive: true, force: true });
      } catch (error) {
        this.#logger.debug("expired file history was not removed; retrying at the next cleanup", { error });
      }
    }
  }

  #openSession(sessionId: string): SessionFiles {
    const cachedSession = this.#sessionsById.get(sessionId);
    const { sessionBytes = DEFAULT_SESSION_BYTES } = this.#options;
    const sessionFiles = cachedSession ?? new SessionFiles(this.#folderOf(sessionId), sessionBytes, this.#logger);
    // Moves the session to the end: the least recently used session is removed first.
    this.#sessionsById.delete(sessionId);
    this.#sessionsById.set(sessionId, sessionFiles);
    const [oldestId] = this.#sessionsById.keys();
    if (this.#sessionsById.size > MAX_CACHED_SESSIONS && oldestId !== undefined) this.#sessionsById.delete(oldestId);
    return sessionFiles;
  }

  /** Returns the folder of a session. Ids from a third-party store are hashed, because they may not be valid names. */
  #folderOf(sessionId: string): string {
    const isPlain = /^[a-zA-Z0-9-]{1,80}$/.test(sessionId);
    return join(this.#options.folder, isPlain ? sessionId : `_${createHash("sha256").update(sessionId).digest("hex")}`);
  }
}

/** Reverts a failed undo. Returns whether every file is as it was before the undo. */
async function rollBack(
  { completedSteps, failedSteps }: RestoreProgress,
  restoreOptions: RestoreOptions,
): Promise<boolean> {
  const reverseChange = ({ path, before, after, made }: PathChange): PathChange => {
    return { path, before: after, after: before, made };
  };
  try {
    // A failed step may have removed the old file without writing the new one.
    const failedReplacements = failedSteps.filter(({ before }) => before.kind !== "none");
    const removals: PathChange[] = [];
    for (const step of failedReplacements)
      if ((await readCurrentState(restoreOptions.guard, step.path)).state.kind === "none")
        removals.push({ ...step, before: { kind: "none" }, after: step.before });
    const steps = [...completedSteps.map(reverseChange), ...removals].sort(comparePaths);
    await restoreFiles(steps, restoreOptions, { completedSteps: [], failedSteps: [] });
    return true;
  } catch {
    return false;
  }
}

/** Input of `#applyRestore`: the request and the results of the check. */
interface RestoreWork {
  request: RestoreRequest;
  files: readonly UndoneFile[];
  sessionFiles: SessionFiles;
  guard: PathGuard;
  folders: readonly string[];
  journal: JournalContents;
}

/** Finds expected changes that the history never recorded, with the outcome `lost`. */
function findUnrecordedChanges(
  journal: JournalContents,
  plan: readonly PlannedPath[],
  expected: readonly ExpectedChange[],
): UndoneFile[] {
  const plannedPaths = new Set(plan.map(({ path }) => path));
  const callPaths = new Set(journal.changes.flatMap(({ call, steps }) => steps.map(({ path }) => `${call} ${path}`)));
  const paths = expected.flatMap(({ callId, path }) =>
    plannedPaths.has(path) || callPaths.has(`${callId} ${path}`) ? [] : [path],
  );
  return [...new Set(paths)].map((path) => ({ path, outcome: "lost", reason: NOT_STORED_REASON }));
}

/** Finds the changes of undos that failed or were killed. */
function findUnfinishedUndos({ changes, confirmedChangeIds }: JournalContents): ChangeLine[] {
  return changes.filter(({ undo, change }) => undo !== "" && !confirmedChangeIds.has(change));
}

/** Finds the paths that the plan removes, and temporary files of interrupted undos. */
function findPathsToRemove(plan: readonly PlannedPath[], journal: JournalContents): PathsToRemove {
  const removals = plan.filter(({ targetState }) => targetState.kind === "none");
  const paths = (isParent: boolean) =>
    removals.flatMap((plannedPath) => (plannedPath.isParentFolder === isParent ? [plannedPath.path] : []));
  const temporaryPaths = findUnfinishedUndos(journal).flatMap(({ change, steps }) =>
    steps.map(({ path }) => temporaryPath(path, change)),
  );
  return { paths: new Set([...paths(false), ...temporaryPaths]), folders: new Set(paths(true)) };
}

async function discardTemporaries(journal: JournalContents, guard: PathGuard): Promise<void> {
  for (const { change, steps } of findUnfinishedUndos(journal))
    await forEachConcurrently(steps, ({ path }) => discardTemporary(guard, path, change));
}

/** Counts the missing parent folders of a path that the plan does not restore separately. */
async function countMissingFolders(guard: PathGuard, path: string, paths: ReadonlySet<string>): Promise<number> {
  let missingCount = 0;
  for (
    let folderPath = dirname(path);
    !paths.has(folderPath) && dirname(folderPath) !== folderPath;
    folderPath = dirname(folderPath), missingCount++
  ) {
    const folder = await guard.openFolder(folderPath).catch(() => undefined);
    await folder?.close();
    if (folder) break;
  }
  return missingCount;
}

function isProblem({ outcome }: UndoneFile): boolean {
  return outcome === "conflict" || isNotRestorable(outcome);
}

function isNotRestorable(outcome: UndoneFile["outcome"]): boolean {
  return outcome === "lost" || outcome === "failed";
}

function comparePaths(left: { readonly path: string }, right: { readonly path: string }): number {
  return left.path < right.path ? -1 : 1;
}
