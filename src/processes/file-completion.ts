import { PathGuard } from "../files/path-guard.js";
import { listFiles } from "./file-list.js";
import { openSearchScope } from "./search-scope.js";

/** Maximum files that are compared with the query, and time to list the files, in ms. */
const MAX_FILES = 100_000;
const LIST_TIMEOUT_MS = 2_000;

/** A search for files whose path contains the characters of `query` in this order. */
export interface FileQuery {
  /** Absolute path of the folder. */
  readonly folder: string;
  /** Characters of the path, without regard to case. `""` matches every file. */
  readonly query: string;
  /** Maximum number of paths. */
  readonly limit: number;
  /** Absolute paths that are left out, with everything in them. */
  readonly deniedPaths: readonly string[];
  readonly signal: AbortSignal;
}

/** The best matches of a file search. */
export interface ProjectFileMatches {
  /** Paths relative to the folder, with `/`, best match first. */
  readonly paths: readonly string[];
  /** Whether the folder has too many files to compare all of them. */
  readonly isIncomplete: boolean;
}

/** Finds files of a folder by a part of their path. Rejects with `PathError`, or with the signal's reason. */
export async function completeFiles(query: FileQuery): Promise<ProjectFileMatches> {
  const { folder, limit, deniedPaths, signal } = query;
  const guard = await PathGuard.create({ roots: [folder], deniedPaths });
  const start = await guard.resolve(folder);
  const scope = await openSearchScope(guard, start, { project: start.path, all: false });
  try {
    const matches: { path: string; score: number }[] = [];
    const characters = query.query.toLowerCase();
    let fileCount = 0;
    const end = await listFiles(scope, { signal, timeoutMs: LIST_TIMEOUT_MS }, (name) => {
      const path = name.replace(/^\.\//, "");
      const score = scorePath(path.toLowerCase(), characters);
      // A control character cannot be typed, and may hide a part of the path.
      if (score !== undefined && !/\p{Cc}/u.test(path)) matches.push({ path, score });
      fileCount += 1;
      return fileCount < MAX_FILES;
    });
    signal.throwIfAborted();
    matches.sort((a, b) => a.score - b.score || a.path.length - b.path.length || (a.path < b.path ? -1 : 1));
    return { paths: matches.slice(0, limit).map(({ path }) => path), isIncomplete: end.endReason !== "exit" };
  } finally {
    await scope.close();
  }
}

/** Rank of a path for a query, both in lower case: lower is better. Undefined if the path does not match. */
function scorePath(path: string, query: string): number | undefined {
  const name = path.slice(path.lastIndexOf("/") + 1);
  if (name.startsWith(query)) return 0;
  if (path.startsWith(query)) return 1;
  if (name.includes(query)) return 2;
  if (path.includes(query)) return 3;
  let position = 0;
  for (const character of query) {
    position = path.indexOf(character, position) + 1;
    if (position === 0) return undefined;
  }
  return 4;
}
