import { createHash } from "node:crypto";
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { createLoggerWithFields, silentLogger } from "../base/log.js";
import { UndoConflictError } from "../ports/errors.js";
import type {
  ChangedFiles,
  ChangeOrigin,
  ChangesQuery,
  ExpectedChange,
  FileHistory,
  FileRecorder,
  LastUndo,
  RestoreRequest,
  UndoMark,
  UndoneFile,
} from "../ports/file-history.js";
import type { Logger } from "../ports/logger.js";
import type { PathGuard } from "../files/path-guard.js";
import { createChangeGuard, type FileToolOptions } from "../tools/files/files.js";
import { applyRestore } from "./apply-restore.js";
import { findUnfinishedUndos, type JournalContents } from "./journal.js";
import { comparePaths, type PlannedPath } from "./plan.js";
import { forEachConcurrently, temporaryPath } from "./restore-files.js";
import { findBlockedPaths, checkPath, NOT_STORED_REASON, type PathsToRemove, type RestoreCheck } from "./restore.js";
import { hashOf } from "./content-store.js";
import { SessionFiles } from "./session-files.js";
import { createTargetPlan } from "./target-plan.js";

const DAY_MS = 86_400_000;
/** Default retention after the last change of a session. */
const RETENTION_MS = 30 * DAY_MS;
const DEFAULT_SESSION_BYTES = 512 * 1024 * 1024;
/** Maximum sessions whose journal is cached. */
const MAX_CACHED_SESSIONS = 64;
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
    const folders = [...new Set(journal.changes.flatMap((line) => line.folders))];
    const guard = await this.#createGuard(projectDir, folders);
    const { plan, newContent, refusal } = await createTargetPlan(target, { journal, sessionFiles, guard });
    const files: UndoneFile[] = [...findUnrecordedChanges(journal, plan, expected), ...(refusal ? [refusal] : [])];
    const checks: RestoreCheck[] = [];
    if ("seq" in target && target.seq < journal.droppedSeq)
      files.push(...plan.map(({ path }) => ({ path, outcome: "lost", reason: HISTORY_TOO_SHORT_REASON }) as const));
    else {
      const newHash = newContent && hashOf(newContent);
      const isStored = async (hash: string): Promise<boolean> =>
        hash === newHash || (await sessionFiles.readContent(hash, journal)) !== undefined;
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
    await applyRestore({ request, files, checks: applicableChecks, sessionFiles, guard, folders, journal, newContent });
    return files;
  }

  async changes(query: ChangesQuery): Promise<ChangedFiles> {
    const sessionFiles = this.#openSession(query.sessionId);
    const journal = await sessionFiles.readJournal();
    const folders = [...new Set(journal.changes.flatMap((line) => line.folders))];
    const { listChanges } = await import("./changes.js");
    return listChanges(query, { journal, sessionFiles, guard: await this.#createGuard(query.projectDir, folders) });
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

  #createGuard(projectDir: string, folders: readonly string[]): Promise<PathGuard> {
    const { allowPaths = [], deniedPaths = [], ...rules } = this.#options;
    return createChangeGuard({ ...rules, allowPaths, deniedPaths }, { projectDir, folders });
  }

  #openSession(sessionId: string): SessionFiles {
    const cachedSession = this.#sessionsById.get(sessionId);
    const { sessionBytes = DEFAULT_SESSION_BYTES } = this.#options;
    const logger = createLoggerWithFields(this.#logger, () => ({ session: sessionId }));
    const sessionFiles = cachedSession ?? new SessionFiles(this.#folderOf(sessionId), sessionBytes, logger);
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

function isProblem({ outcome }: UndoneFile): boolean {
  return outcome === "conflict" || isNotRestorable(outcome);
}

function isNotRestorable(outcome: UndoneFile["outcome"]): boolean {
  return outcome === "lost" || outcome === "failed";
}
