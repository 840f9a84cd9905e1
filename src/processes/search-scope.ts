import { lstat } from "node:fs/promises";
import { dirname, join, relative, resolve, sep } from "node:path";
import { isInside, type PathGuard } from "../files/path-guard.js";

/** Default time limit of a search, in ms. */
export const SEARCH_TIMEOUT_MS = 60_000;

/** The folder in which ripgrep runs, held open so that it cannot be replaced, and the search root in it. */
export interface SearchScope {
  /** Real path of the folder in which ripgrep runs. Paths in ripgrep's output are relative to this folder. */
  readonly base: string;
  /** Path to the folder for a process started now. */
  readonly cwd: string;
  /** Folder or file to search, relative to `base`. */
  readonly root: string;
  /** Flags of every search in this scope: ignore files, `.git` and denied paths. */
  readonly flags: readonly string[];
  close(): Promise<void>;
}

/**
 * Opens the scope of a search below `start`, the real path of a folder or file. Rejects with `PathError`.
 *
 * The search runs in `project` if it contains `start`, so that globs and ignore files can refer to the project's
 * folders. Denied paths are excluded before anything in them is read.
 */
export async function openSearchScope(
  guard: PathGuard,
  start: { path: string; isFolder: boolean },
  { project, all }: { project: string; all: boolean },
): Promise<SearchScope> {
  const base = isInside(start.path, project) ? project : start.isFolder ? start.path : dirname(start.path);
  const folder = await guard.openFolder(base);
  try {
    const deniedFlags = guard
      .listDeniedPathsBelow(folder.path)
      .map((path) => `--iglob=!/${escapeGlob(toSlashes(relative(base, path)))}`);
    return {
      base: folder.path,
      // On Linux, a path through the open handle: it leads to this folder even if the name changes its meaning.
      cwd: folder.getSystemPath("."),
      root: `./${toSlashes(relative(folder.path, start.path))}`,
      flags: ["--hidden", ...(await findIgnoreFlags(folder.path, all)), "--glob=!.git", ...deniedFlags],
      close: () => folder.close(),
    };
  } catch (error) {
    await folder.close();
    throw error;
  }
}

/**
 * Returns the flags for the ignore files that apply: `.gitignore` and `.git/info/exclude`, from the root of the
 * repository. Outside a repository, from `base`.
 */
async function findIgnoreFlags(base: string, all: boolean): Promise<string[]> {
  if (all) return ["--no-ignore"];
  const flags = ["--no-ignore-dot", "--no-ignore-global", "--no-require-git"];
  const foldersAbove: string[] = [];
  for (let folder = base; ; folder = dirname(folder)) {
    if (await exists(join(folder, ".git"))) return flags;
    if (folder !== base) foldersAbove.push(folder);
    if (dirname(folder) === folder) break;
  }
  const isIgnoredFromAbove = (
    await Promise.all(foldersAbove.map((folder) => exists(join(folder, ".gitignore"))))
  ).includes(true);
  if (!isIgnoredFromAbove) return flags;
  // Outside a repository, ignore files above the project must not apply. Ripgrep can only exclude all files above its
  // start folder.
  return [
    ...flags,
    "--no-ignore-parent",
    ...((await exists(join(base, ".gitignore"))) ? ["--ignore-file=.gitignore"] : []),
  ];
}

function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

/** Returns the real path that a line of ripgrep's output names. */
export function resolveMatchPath(scope: SearchScope, name: string): string {
  return resolve(scope.base, name);
}

/** Escapes a path for a glob, so that it matches only that path. */
export function escapeGlob(path: string): string {
  return path.replace(/[\\*?[\]{}!#]/g, "\\$&").replace(/ $/, "\\ ");
}

function toSlashes(path: string): string {
  return path.split(sep).join("/");
}

/** Collects records that end in NUL from an output in pieces. */
export class NulRecordParser {
  #incompleteRecord: Buffer = Buffer.alloc(0);

  /** `onRecord` receives each record and returns false to stop. In that case, `push` returns false. */
  push(chunk: Buffer, onRecord: (record: string) => boolean): boolean {
    const bytes = this.#incompleteRecord.length === 0 ? chunk : Buffer.concat([this.#incompleteRecord, chunk]);
    let start = 0;
    for (let end = bytes.indexOf(0); end >= 0; end = bytes.indexOf(0, start)) {
      if (!onRecord(bytes.toString("utf8", start, end))) return false;
      start = end + 1;
    }
    this.#incompleteRecord = bytes.subarray(start);
    return true;
  }
}

/**
 * Returns the sort key of a path. Keys sort as a walk visits paths: by name, with the contents of a folder directly
 * after it.
 */
export function createPathKey(path: string): string {
  // No name contains NUL, and NUL sorts before all other characters.
  return path.replaceAll("/", "\0");
}

/**
 * Keeps the first paths in the order of a walk: by name, with the contents of a folder directly after it. Memory is
 * bounded, however many paths are added.
 */
export class FirstPaths {
  readonly #maxCount: number;
  #keys: string[] = [];
  #lastKey: string | undefined;
  /** Number of added paths. */
  count = 0;

  constructor(maxCount: number) {
    this.#maxCount = maxCount;
  }

  /** Returns true, so that the listing continues. */
  add(name: string): true {
    this.count++;
    const key = createPathKey(name);
    if (this.#lastKey !== undefined && key > this.#lastKey) return true;
    // Sorting only at this size keeps the cost of each path low.
    if (this.#keys.push(key) >= 4 * this.#maxCount) this.#shorten();
    return true;
  }

  names(): string[] {
    this.#shorten();
    return this.#keys.map((key) => key.replaceAll("\0", "/"));
  }

  #shorten(): void {
    this.#keys = this.#keys.sort().slice(0, this.#maxCount);
    if (this.#keys.length === this.#maxCount) this.#lastKey = this.#keys.at(-1);
  }
}
