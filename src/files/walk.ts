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
  readonly depth: number;
  /** Real paths of entries that the walk skips. */
  readonly ignored: ReadonlySet<string>;
  readonly signal: AbortSignal;
}

/** Counters of a walk, updated while it runs. */
export interface WalkReport {
  /** Skipped entries of `WalkOptions.ignored`. */
  ignored: number;
  /** Whether the walk reached the maximum number of entries. */
  isIncomplete: boolean;
  /** Folders that could not be read. */
  unreadable: number;
}

export function newReport(): WalkReport {
  return { ignored: 0, isIncomplete: false, unreadable: 0 };
}

/**
 * Yields the entries below an open folder, sorted by name, each folder before its entries. `.git` and denied paths are
 * skipped.
 *
 * Each folder is held open during its walk, and links are never followed. So the walk neither loops nor leaves the
 * start folder.
 */
export async function* walk(
  folder: OpenedFolder,
  options: WalkOptions,
  report: WalkReport,
  start = "",
  counter = { entries: 0 },
): AsyncGenerator<WalkEntry> {
  const { guard, depth, ignored, signal } = options;
  for (const dirent of await readSortedEntries(folder, report, counter)) {
    signal.throwIfAborted();
    const { name } = dirent;
    const path = join(folder.path, name);
    if (name === ".git" || guard.denies(path)) continue;
    if (ignored.has(path)) {
      report.ignored++;
      continue;
    }
    const entry = { path, relativePath: start + name, kind: kindOf(dirent) };
    yield entry;
    if (entry.kind !== "folder" || depth <= 1) continue;
    const subfolder = await folder.folder(name).catch(() => undefined);
    if (subfolder === undefined) {
      report.unreadable++;
      continue;
    }
    try {
      yield* walk(subfolder, { ...options, depth: depth - 1 }, report, `${entry.relativePath}/`, counter);
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
    report.unreadable++;
  }
  return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
}

function kindOf(dirent: Dirent): WalkEntry["kind"] {
  if (dirent.isFile()) return "file";
  if (dirent.isDirectory()) return "folder";
  return dirent.isSymbolicLink() ? "link" : "other";
}
