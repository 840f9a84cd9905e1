import type { Dirent } from "node:fs";
import { join } from "node:path";
import type { OpenedFolder, PathGuard } from "./path-guard.js";

/** Maximum entries of one walk. Also the maximum for one folder. */
const MAX_ENTRIES = 200_000;

export interface WalkEntry {
  /** Real path of the folder, plus the entry's name. */
  readonly path: string;
  /** Path relative to the start of the walk, with `/`. */
  readonly relativePath: string;
  readonly kind: "file" | "folder" | "link" | "other";
}

export interface WalkOptions {
  readonly guard: PathGuard;
  /** Maximum folder levels, at least 1. */
  readonly maxDepth: number;
  /** Real paths of entries that the walk skips. */
  readonly ignoredPaths: ReadonlySet<string>;
  readonly signal: AbortSignal;
}

/** Counters of a walk, updated while it runs. */
export interface WalkReport {
  /** Number of skipped entries of `WalkOptions.ignoredPaths`. */
  ignoredCount: number;
  /** Whether the walk reached the maximum number of entries. */
  isIncomplete: boolean;
  /** Number of folders that could not be read. */
  unreadableCount: number;
}

export function createWalkReport(): WalkReport {
  return { ignoredCount: 0, isIncomplete: false, unreadableCount: 0 };
}

/**
 * Yields the entries below an open folder, sorted by name, each folder before its entries. `.git` and denied paths are
 * skipped. `pathPrefix`: relative path of `folder`, with a final `/`. `counter`: entries that the walk has read so far.
 *
 * Each folder is held open during its walk, and links are never followed. So the walk neither loops nor leaves the
 * start folder.
 */
export async function* walk(
  folder: OpenedFolder,
  options: WalkOptions,
  report: WalkReport,
  pathPrefix = "",
  counter = { entries: 0 },
): AsyncGenerator<WalkEntry> {
  const { guard, maxDepth, ignoredPaths, signal } = options;
  for (const dirent of await readSortedEntries(folder, report, counter)) {
    signal.throwIfAborted();
    const { name } = dirent;
    const path = join(folder.path, name);
    if (name === ".git" || guard.denies(path)) continue;
    if (ignoredPaths.has(path)) {
      report.ignoredCount++;
      continue;
    }
    const entry = { path, relativePath: pathPrefix + name, kind: kindOf(dirent) };
    yield entry;
    if (entry.kind !== "folder" || maxDepth <= 1) continue;
    const subfolder = await folder.openSubfolder(name).catch(() => undefined);
    if (subfolder === undefined) {
      report.unreadableCount++;
      continue;
    }
    try {
      yield* walk(subfolder, { ...options, maxDepth: maxDepth - 1 }, report, `${entry.relativePath}/`, counter);
    } finally {
      await subfolder.close();
    }
  }
}

async function readSortedEntries(
  folder: OpenedFolder,
  report: WalkReport,
  counter: { entries: number },
): Promise<Dirent[]> {
  const entries: Dirent[] = [];
  try {
    for await (const entry of folder.entries()) {
      if (counter.entries++ >= MAX_ENTRIES) {
        report.isIncomplete = true;
        break;
      }
      entries.push(entry);
    }
  } catch {
    report.unreadableCount++;
  }
  return entries.sort((left, right) => (left.name < right.name ? -1 : 1));
}

function kindOf(dirent: Dirent): WalkEntry["kind"] {
  if (dirent.isFile()) return "file";
  if (dirent.isDirectory()) return "folder";
  return dirent.isSymbolicLink() ? "link" : "other";
}
