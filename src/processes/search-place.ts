import { lstat } from "node:fs/promises";
import { dirname, join, relative, resolve, sep } from "node:path";
import { isInside, type PathGuard } from "../files/path-guard.js";

/** How long a search may take, in ms. */
export const SEARCH_MS = 60_000;

/** A folder in which ripgrep runs, held open so that it stays that folder, and what to search there. */
export interface SearchPlace {
  /** The real path of the folder in which it runs: paths of its output begin there. */
  readonly base: string;
  /** A path by which a process that is started now gets there. */
  readonly cwd: string;
  /** The folder or file to search, from `base`. */
  readonly root: string;
  /** Flags of every search there: ignore files, `.git` and denied paths. */
  readonly flags: readonly string[];
  close(): Promise<void>;
}

/**
 * Opens the place for a search below `start`, a real path of a folder or a file. It runs in `project` where `start` lies in
 * it, so that globs and ignore files may speak of the project's folders. Denied paths are left out before anything of them
 * is read. Rejects with `PathError`.
 */
export async function openSearchPlace(
  guard: PathGuard,
  start: { path: string; isFolder: boolean },
  { project, all }: { project: string; all: boolean },
): Promise<SearchPlace> {
  const base = isInside(start.path, project) ? project : start.isFolder ? start.path : dirname(start.path);
  const folder = await guard.openFolder(base);
  try {
    const denied = guard
      .deniedBelow(folder.path)
      .map((path) => `--iglob=!/${escapeGlob(slashes(relative(base, path)))}`);
    return {
      base: folder.path,
      // On Linux a way by the handle: it leads to this folder whatever its name means by then.
      cwd: folder.at("."),
      root: `./${slashes(relative(folder.path, start.path))}`,
      flags: ["--hidden", ...(await ignoreFlags(folder.path, all)), "--glob=!.git", ...denied],
      close: () => folder.close(),
    };
  } catch (error) {
    await folder.close();
    throw error;
  }
}

/** Flags for the ignore files that count: `.gitignore` and `.git/info/exclude`, from the top of the repository or else from `base` down. */
async function ignoreFlags(base: string, all: boolean): Promise<string[]> {
  if (all) return ["--no-ignore"];
  const flags = ["--no-ignore-dot", "--no-ignore-global", "--no-require-git"];
  const above: string[] = [];
  for (let at = base; ; at = dirname(at)) {
    if (await exists(join(at, ".git"))) return flags;
    if (at !== base) above.push(at);
    if (dirname(at) === at) break;
  }
  const isIgnoredFromAbove = (await Promise.all(above.map((at) => exists(join(at, ".gitignore"))))).includes(true);
  if (!isIgnoredFromAbove) return flags;
  // In no repository a file above the project has no say; ripgrep can only be told to look at none above where it begins.
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

/** The real path that a line of ripgrep's output names. */
export function foundPath(place: SearchPlace, name: string): string {
  return resolve(place.base, name);
}

/** A path as part of a glob that matches nothing else. */
export function escapeGlob(path: string): string {
  return path.replace(/[\\*?[\]{}!#]/g, "\\$&").replace(/ $/, "\\ ");
}

function slashes(path: string): string {
  return path.split(sep).join("/");
}

/** Collects the parts of an output that end in NUL, whatever pieces it comes in. */
export class NulRecords {
  #open: Buffer = Buffer.alloc(0);

  /** @param take Gets each part; false ends it. Returns false then. */
  push(chunk: Buffer, take: (record: string) => boolean): boolean {
    const bytes = this.#open.length === 0 ? chunk : Buffer.concat([this.#open, chunk]);
    let start = 0;
    for (let end = bytes.indexOf(0); end >= 0; end = bytes.indexOf(0, start)) {
      if (!take(bytes.toString("utf8", start, end))) return false;
      start = end + 1;
    }
    this.#open = bytes.subarray(start);
    return true;
  }
}

/** Compared as text, these order paths as a walk meets them: name by name, what is in a folder right after it. */
export function pathKey(path: string): string {
  // NUL is in no name, and comes before all that is.
  return path.replaceAll("/", "\0");
}

/**
 * The first paths in the order in which a walk meets them: name by name, what is in a folder right after it. Holds few of
 * them, however many it is given.
 */
export class FirstPaths {
  readonly #max: number;
  #keys: string[] = [];
  #last: string | undefined;
  count = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Returns true, so that a list goes on. */
  add(name: string): true {
    this.count++;
    const key = pathKey(name);
    if (this.#last !== undefined && key > this.#last) return true;
    if (this.#keys.push(key) >= 4 * this.#max) this.#sort();
    return true;
  }

  names(): string[] {
    this.#sort();
    return this.#keys.map((key) => key.replaceAll("\0", "/"));
  }

  #sort(): void {
    this.#keys = this.#keys.sort().slice(0, this.#max);
    if (this.#keys.length === this.#max) this.#last = this.#keys.at(-1);
  }
}
