import type { Dirent } from "node:fs";
import { join } from "node:path";
import type { OpenedFolder, PathGuard } from "./path-guard.js";

/** Entries looked at by one walk, and of one folder. */
const MAX_ENTRIES = 200_000;

export interface Entry {
  /** Resolved folder and own name. */
  readonly path: string;
  /** From the start of the walk, with `/`. */
  readonly way: string;
  readonly kind: "file" | "folder" | "link" | "other";
}

export interface WalkOptions {
  readonly guard: PathGuard;
  /** Levels of folders, at least 1. */
  readonly depth: number;
  /** Real paths of entries that the walk leaves out. */
  readonly ignored: ReadonlySet<string>;
  readonly signal: AbortSignal;
}

/** Counts of a walk, filled while it runs. */
export interface WalkReport {
  /** Entries that were left out. */
  ignored: number;
  /** Whether there were more entries than a walk looks at. */
  isIncomplete: boolean;
  /** Folders that could not be read. */
  unreadable: number;
}

export function newReport(): WalkReport {
  return { ignored: 0, isIncomplete: false, unreadable: 0 };
}

/**
 * Yields the entries below an opened folder, by name, a folder before its entries. Each folder is held open while it is walked, and
 * links are never followed, so nothing loops and nothing leads out. `.git` and what is denied are left out.
 */
export async function* walk(
  folder: OpenedFolder,
  options: WalkOptions,
  report: WalkReport,
  start = "",
  seen = { entries: 0 },
): AsyncGenerator<Entry> {
  const { guard, depth, ignored, signal } = options;
  for (const dirent of await sortedEntries(folder, report, seen)) {
    signal.throwIfAborted();
    const { name } = dirent;
    const path = join(folder.path, name);
    if (name === ".git" || guard.denies(path)) continue;
    if (ignored.has(path)) {
      report.ignored++;
      continue;
    }
    const entry = { path, way: start + name, kind: kindOf(dirent) };
    yield entry;
    if (entry.kind !== "folder" || depth <= 1) continue;
    const inside = await folder.folder(name).catch(() => undefined);
    if (inside === undefined) {
      report.unreadable++;
      continue;
    }
    try {
      yield* walk(inside, { ...options, depth: depth - 1 }, report, `${entry.way}/`, seen);
    } finally {
      await inside.close();
    }
  }
}

async function sortedEntries(folder: OpenedFolder, report: WalkReport, seen: { entries: number }): Promise<Dirent[]> {
  const entries: Dirent[] = [];
  try {
    for await (const entry of folder.entries()) {
      if (seen.entries++ >= MAX_ENTRIES) {
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

function kindOf(dirent: Dirent): Entry["kind"] {
  if (dirent.isFile()) return "file";
  if (dirent.isDirectory()) return "folder";
  return dirent.isSymbolicLink() ? "link" : "other";
}
