import type { Stats } from "node:fs";
import { basename, dirname } from "node:path";
import { PathError } from "../ports/errors.js";
import type { FileState, UndoneFile } from "../ports/file-history.js";
import type { OpenedFolder, PathGuard } from "../files/path-guard.js";
import { readFileState } from "../tools/files/record-file.js";
import type { StoredFileState } from "./journal.js";
import type { PlannedPath } from "./plan.js";
import { isSame, toStoredState } from "./session-files.js";

export const CHANGED_REASON = "another program changed it since";
const MIXED_REASON = "another program changed it in between";
const LATER_RUN_REASON = "a later run changed it too";
const TOO_LARGE_REASON = "it is now too large to be saved; move it away first";
const NOT_EMPTY_REASON = "it is now a folder that is not empty; move its contents away first";
export const NOT_STORED_REASON = "its earlier content is not stored";
const MISSING = { kind: "none" } as const;

/** The result of checking one path: the planned restore and the current state. */
export interface RestoreCheck {
  plannedPath: PlannedPath;
  file: UndoneFile;
  current: StoredFileState;
  /** Identifies the current state without reading the file. `""`: the file must be read again. */
  mark: string;
}

/** Current state of a path, with its mark. */
export interface CurrentState {
  state: FileState;
  mark: string;
}

/** Minimum age of a change, in ms, for a mark. A second change sooner than this may leave the file times unchanged. */
const MIN_CHANGE_AGE_MS = 2_000;

/** Paths that the plan removes. */
export interface PathsToRemove {
  paths: ReadonlySet<string>;
  /** Folders that are removed only if they contain nothing else. */
  folders: ReadonlySet<string>;
}

/** Input of the check of a path. */
export interface CheckOptions {
  guard: PathGuard;
  pathsToRemove: PathsToRemove;
  /** Paths that are the parent of other planned paths and are no folders now. Nothing exists below them. */
  blockedPaths: ReadonlySet<string>;
  isStored: (hash: string) => Promise<boolean>;
  force: boolean;
}

/**
 * Checks what the restore of a path would do. Undefined if the path needs no change.
 *
 * Never rejects: a failed check has the outcome `failed`.
 */
export async function checkPath(
  plannedPath: PlannedPath,
  { guard, pathsToRemove, blockedPaths, isStored, force }: CheckOptions,
): Promise<RestoreCheck | undefined> {
  const { path, targetState, expectedStates, isMixed, isRemade, isParentFolder } = plannedPath;
  let current: StoredFileState = MISSING;
  let mark = "";
  const createCheck = (outcome: UndoneFile["outcome"], reason = ""): RestoreCheck => {
    return { plannedPath, file: { path, outcome, reason }, current, mark };
  };
  try {
    const pathState = isBelow(path, blockedPaths)
      ? { state: MISSING, mark: "", refusal: "" }
      : await readCurrentState(guard, path, (folder, name) => folder.requireWritable(name));
    current = toStoredState(pathState.state);
    mark = pathState.mark;
    // A path that is no longer a folder belongs to another program.
    if (isParentFolder && current.kind !== "folder") return undefined;
    if (isSame(current, targetState) && !(isRemade && modeOf(current) !== modeOf(targetState))) return undefined;
    if (targetState.kind === "file" && (targetState.hash === "" || !(await isStored(targetState.hash))))
      return createCheck("lost", NOT_STORED_REASON);
    // A conflict even with `force`, because the current content would be lost.
    if (current.kind === "file" && current.hash === "") return createCheck("conflict", TOO_LARGE_REASON);
    if (
      current.kind === "folder" &&
      targetState.kind !== "folder" &&
      (await hasOtherEntries(guard, path, pathsToRemove))
    )
      return isParentFolder ? undefined : createCheck("conflict", NOT_EMPTY_REASON);
    if (!force && !expectedStates.some((state) => isSame(state, current)))
      return createCheck("conflict", CHANGED_REASON);
    if (!force && isMixed) return createCheck("conflict", MIXED_REASON);
    if (!force && plannedPath.hasLaterRun) return createCheck("conflict", LATER_RUN_REASON);
    if (pathState.refusal) return createCheck("failed", pathState.refusal);
  } catch (error) {
    return isParentFolder ? undefined : createCheck("failed", reasonOf(error));
  }
  return createCheck(targetState.kind === "none" ? "removed" : current.kind === "none" ? "recreated" : "restored");
}

/** Finds planned paths that are the parent of other planned paths and are no folders now. */
export async function findBlockedPaths(plan: readonly PlannedPath[], guard: PathGuard): Promise<Set<string>> {
  const blockedPaths = new Set<string>();
  const parents = new Set(plan.flatMap(({ path }) => listParentFolders(path)));
  for (const { path } of plan) {
    if (!parents.has(path) || isBelow(path, blockedPaths)) continue;
    const pathState = await readCurrentState(guard, path).catch(() => undefined);
    if (pathState && pathState.state.kind !== "folder" && pathState.state.kind !== "none") blockedPaths.add(path);
  }
  return blockedPaths;
}

function isBelow(path: string, folders: ReadonlySet<string>): boolean {
  return folders.size > 0 && listParentFolders(path).some((folder) => folders.has(folder));
}

/** Returns all folders above a path, the nearest first. */
function listParentFolders(path: string): string[] {
  const folders: string[] = [];
  for (let folder = dirname(path); folder !== dirname(folder); folder = dirname(folder)) folders.push(folder);
  return folders;
}

/**
 * Reads the current state of a path. A path whose parent folder is missing is reported as missing. `refusal` is the
 * reason why an existing file cannot be written; `""` if the file can be written.
 */
export async function readCurrentState(
  guard: PathGuard,
  path: string,
  requireWritable: (folder: OpenedFolder, name: string) => Promise<void> = () => Promise.resolve(),
): Promise<CurrentState & { refusal: string }> {
  try {
    return await withParentFolder(guard, path, false, async (folder, name) => {
      const mark = markOf(await folder.stat(name));
      const state = await readFileState(guard, folder, name);
      const refusal = state.kind === "file" ? await requireWritable(folder, name).then(() => "", reasonOf) : "";
      return { state, mark, refusal };
    });
  } catch (error) {
    if (error instanceof PathError && error.reason === "not_found") return { state: MISSING, mark: "", refusal: "" };
    throw error;
  }
}

/**
 * Returns a value that changes with the file. Returns `""` for anything but a regular file, and after a recent change.
 */
export function markOf(stats: Stats | undefined): string {
  if (!stats?.isFile() || Date.now() - Math.max(stats.mtimeMs, stats.ctimeMs) < MIN_CHANGE_AGE_MS) return "";
  const { dev, ino, size, mode, mtimeMs, ctimeMs } = stats;
  return [dev, ino, size, mode, mtimeMs, ctimeMs].join(":");
}

/**
 * Calls `work` with the open parent folder of a path. `create` creates missing folders.
 *
 * Rejects with `PathError` if the parent folder is now reached through a link, or if the path is protected.
 */
export async function withParentFolder<T>(
  guard: PathGuard,
  path: string,
  create: boolean,
  work: (folder: OpenedFolder, name: string) => T | Promise<T>,
): Promise<T> {
  const name = basename(path);
  // Folders are not created through a link.
  if (create) {
    const target = await guard.resolveForChange(dirname(path));
    if (target.path !== dirname(path)) throw new PathError("outside", "its folder was moved");
  } else guard.refuseProtected([dirname(path)]);
  const folder = await guard.openFolder(dirname(path), { create });
  try {
    if (folder.path !== dirname(path)) throw new PathError("outside", "its folder was moved");
    await guard.refuseProtectedIn(folder, name);
    return await work(folder, name);
  } finally {
    await folder.close();
  }
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Whether a folder contains entries that the plan does not remove. */
async function hasOtherEntries(guard: PathGuard, path: string, pathsToRemove: PathsToRemove): Promise<boolean> {
  const subfolders = await withParentFolder(guard, path, false, async (parentFolder, folderName) => {
    const folder = await parentFolder.openSubfolder(folderName);
    const subfolderPaths: string[] = [];
    try {
      for await (const { name } of folder.entries()) {
        const entryPath = `${path}/${name}`;
        if (pathsToRemove.paths.has(entryPath)) continue;
        if (!pathsToRemove.folders.has(entryPath)) return undefined;
        subfolderPaths.push(entryPath);
      }
      return subfolderPaths;
    } finally {
      await folder.close();
    }
  });
  if (!subfolders) return true;
  for (const subfolder of subfolders) if (await hasOtherEntries(guard, subfolder, pathsToRemove)) return true;
  return false;
}

function modeOf(state: StoredFileState): number {
  return state.kind === "file" ? state.mode : 0;
}
