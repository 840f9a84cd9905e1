import { stat } from "node:fs/promises";
import type { Dirent } from "node:fs";
import { sep } from "node:path";
import type { OpenedFolder, PathGuard } from "../files/path-guard.js";
import type { Gitignore } from "./gitignore.js";
import { OutOfTime, type Allowance } from "./path-rules.js";

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
  /** For patterns. */
  allowance: Allowance;
  /** How deep to go; default 64. */
  depth?: number;
  /** Device and inode of the folder where it begins. */
  identity: { dev: bigint; ino: bigint };
}

/** Entries looked at by one walk, and of one folder. */
const MAX_ENTRIES = 200_000;

/** How a walk went; filled while it goes. */
export interface WalkReport {
  /** Entries that ignore files hide. */
  ignored: number;
  /** Whether there were more entries than a walk looks at, or deeper ones, or no more time. */
  incomplete: boolean;
  /** Whether patterns had all the time that there is for them. */
  slowPatterns: boolean;
  /** Folders that could not be read. */
  unreadable: number;
  /** Folders whose ignore file is too large to be used whole. */
  cut: string[];
}

export function newReport(): WalkReport {
  return { ignored: 0, incomplete: false, slowPatterns: false, unreadable: 0, cut: [] };
}

/**
 * What lies below `start` (a resolved path), by name, folders before what is in them. Symbolic links are shown and never
 * followed, so nothing loops and nothing leads out.
 */
export async function* walk(start: string, options: WalkOptions, report: WalkReport): AsyncGenerator<Entry> {
  const { guard, allowance, identity, depth: deepest = 64 } = options;
  let seen = 0;
  const stack: { entry: Entry; ignore: Gitignore | undefined }[] = [];

  const open = async (folder: string, way: string, depth: number, ignore: Gitignore | undefined): Promise<void> => {
    const dirents = await readFolder(guard, folder, MAX_ENTRIES - seen, depth === 1 ? identity : undefined, report);
    seen += dirents.length;
    const found: { entry: Entry; ignore: Gitignore | undefined }[] = [];
    const ignores = ignore?.in(folder);
    const startOfPath = folder.endsWith(sep) ? folder : folder + sep;
    const startOfWay = way === "" ? "" : `${way}/`;
    // Only where something denied lies below does each name have to be looked at.
    const mayDeny = guard.holdsDenied(folder);
    allowance.spend(() => {
      try {
        for (const dirent of dirents) {
          const path = startOfPath + dirent.name;
          if (dirent.name === ".git" || (mayDeny && guard.denies(path))) continue;
          const kind = kindOf(dirent);
          if (ignores?.(dirent.name, kind === "folder")) report.ignored++;
          else found.push({ entry: { path, way: startOfWay + dirent.name, kind, depth }, ignore });
        }
      } catch (error) {
        if (!(error instanceof OutOfTime)) throw error;
        report.slowPatterns = true;
      }
    });
    found.sort((a, b) => (a.entry.way < b.entry.way ? 1 : -1));
    for (const one of found) stack.push(one);
  };

  await open(start, "", 1, options.ignore);
  for (let next = stack.pop(); next; next = stack.pop()) {
    const { entry, ignore } = next;
    yield entry;
    if (entry.kind !== "folder" || entry.depth >= deepest) {
      if (entry.kind === "folder" && options.depth === undefined) report.incomplete = true;
      continue;
    }
    if (seen >= MAX_ENTRIES || report.slowPatterns) report.incomplete = true;
    else
      try {
        await open(entry.path, entry.way, entry.depth + 1, await ignore?.enter(entry.path));
      } catch (error) {
        if (!(error instanceof OutOfTime)) throw error;
        // What is known already is still told.
        report.slowPatterns = true;
      }
  }
}

async function readFolder(
  guard: PathGuard,
  folder: string,
  limit: number,
  identity: WalkOptions["identity"] | undefined,
  report: WalkReport,
): Promise<Dirent[]> {
  const dirents: Dirent[] = [];
  let opened: OpenedFolder | undefined;
  try {
    opened = await guard.openFolder(folder);
    if (identity) {
      // Checked by the one who asked, with all rules: it must be that folder still.
      const { dev, ino } = await stat(opened.at("."), { bigint: true });
      if (dev !== identity.dev || ino !== identity.ino) throw new Error("it was replaced meanwhile");
    }
    for await (const dirent of opened.entries()) {
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
