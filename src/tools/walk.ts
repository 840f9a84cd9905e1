import { opendir } from "node:fs/promises";
import type { Dirent } from "node:fs";
import { join } from "node:path";
import type { OpenedFolder, PathGuard } from "../paths.js";
import type { Gitignore } from "./gitignore.js";

export type EntryKind = "file" | "folder" | "link" | "other";

export interface Entry {
  /** Resolved folder and own name. */
  path: string;
  /** From the start of the walk, with `/`. */
  way: string;
  kind: EntryKind;
  /** 1 for what lies in the folder where the walk began. */
  depth: number;
}

export interface WalkOptions {
  guard: PathGuard;
  /** Left out: nothing is ignored but `.git`. */
  ignore: Gitignore | undefined;
  signal: AbortSignal;
  /** How deep to go; default 64. */
  depth?: number;
}

/** Entries looked at by one walk, and of one folder. */
const MAX_ENTRIES = 200_000;

/** How a walk went; filled while it goes. */
export interface WalkReport {
  /** Entries that ignore files hide. */
  ignored: number;
  /** Whether there were more entries than a walk looks at, or deeper ones. */
  incomplete: boolean;
  /** Folders that could not be read. */
  unreadable: number;
}

/**
 * What lies below `start` (a resolved path), by name, folders before what is in them. Symbolic links are shown and never
 * followed, so nothing loops and nothing leads out.
 */
export async function* walk(start: string, options: WalkOptions, report: WalkReport): AsyncGenerator<Entry> {
  const { guard, signal, depth: deepest = 64 } = options;
  let seen = 0;
  const stack: { entry: Entry; ignore: Gitignore | undefined }[] = [];

  const open = async (folder: string, way: string, depth: number, ignore: Gitignore | undefined): Promise<void> => {
    const found: { entry: Entry; ignore: Gitignore | undefined }[] = [];
    for (const dirent of await readFolder(guard, folder, MAX_ENTRIES - seen, report)) {
      seen++;
      const path = join(folder, dirent.name);
      if (dirent.name === ".git" || guard.denies(path)) continue;
      const kind = kindOf(dirent);
      if (ignore?.ignores(path, kind === "folder")) report.ignored++;
      else
        found.push({ entry: { path, way: way === "" ? dirent.name : `${way}/${dirent.name}`, kind, depth }, ignore });
    }
    found.sort((a, b) => (a.entry.way < b.entry.way ? 1 : -1));
    for (const one of found) stack.push(one);
  };

  await open(start, "", 1, options.ignore);
  for (let next = stack.pop(); next; next = stack.pop()) {
    signal.throwIfAborted();
    const { entry, ignore } = next;
    yield entry;
    if (entry.kind !== "folder" || entry.depth >= deepest) {
      if (entry.kind === "folder" && options.depth === undefined) report.incomplete = true;
      continue;
    }
    if (seen >= MAX_ENTRIES) report.incomplete = true;
    else await open(entry.path, entry.way, entry.depth + 1, await ignore?.enter(entry.path));
  }
}

export function newReport(): WalkReport {
  return { ignored: 0, incomplete: false, unreadable: 0 };
}

async function readFolder(guard: PathGuard, folder: string, limit: number, report: WalkReport): Promise<Dirent[]> {
  const dirents: Dirent[] = [];
  let opened: OpenedFolder | undefined;
  try {
    opened = await guard.openFolder(folder);
    for await (const dirent of await opendir(opened.at("."), { bufferSize: 256 })) {
      if (dirents.length >= limit) {
        report.incomplete = true;
        break;
      }
      dirents.push(dirent);
    }
  } catch {
    report.unreadable++;
  } finally {
    await opened?.close();
  }
  return dirents;
}

function kindOf(dirent: Dirent): EntryKind {
  if (dirent.isFile()) return "file";
  if (dirent.isDirectory()) return "folder";
  return dirent.isSymbolicLink() ? "link" : "other";
}
