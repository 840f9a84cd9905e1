import type { PathGuard } from "../files/path-guard.js";
import { runRipgrep, type RipgrepEnd } from "./ripgrep.js";
import { realMatchPath, NulRecords, openSearchScope, SEARCH_TIMEOUT_MS, type SearchScope } from "./search-scope.js";

export interface ListOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
  /** Additional arguments for ripgrep. */
  readonly args?: readonly string[];
}

/**
 * Lists regular files by their path relative to the place's base, as `./a/b`, in no particular order. `take` returns
 * false to stop.
 */
export function listFiles(
  place: SearchScope,
  { signal, timeoutMs = SEARCH_TIMEOUT_MS, args = [] }: ListOptions,
  take: (name: string) => boolean,
): Promise<RipgrepEnd> {
  const records = new NulRecords();
  return runRipgrep({
    args: ["--files", "--null", ...args, ...place.flags, "--", place.root],
    cwd: place.cwd,
    signal,
    timeoutMs,
    onOutput: (chunk) => records.push(chunk, take),
  });
}

/** Paths below a folder, down to a depth, that ignore files exclude. */
export interface Ignored {
  readonly paths: ReadonlySet<string>;
  /** Whether the list may be incomplete, because of the time limit or the maximum number of paths. */
  readonly isIncomplete: boolean;
}

/**
 * Finds the real paths that ignore files exclude in a folder and, down to `depth`, in its subfolders. Rejects as
 * `openSearchScope`.
 */
export async function ignoredBelow(
  guard: PathGuard,
  folder: string,
  project: string,
  { depth, signal, timeoutMs = SEARCH_TIMEOUT_MS }: { depth: number; signal: AbortSignal; timeoutMs?: number },
): Promise<Ignored> {
  const place = await openSearchScope(guard, { path: folder, isFolder: true }, { project, all: false });
  try {
    const paths = new Set<string>();
    const { why } = await runRipgrep({
      args: ["--files", `--max-depth=${depth}`, ...place.flags, "--", place.root],
      cwd: place.cwd,
      signal,
      timeoutMs,
      onIgnored: (name) => void (paths.size < MAX_IGNORED_PATHS && paths.add(realMatchPath(place, name))),
    });
    return { paths, isIncomplete: why === "timeout" || paths.size >= MAX_IGNORED_PATHS };
  } finally {
    await place.close();
  }
}

const MAX_IGNORED_PATHS = 200_000;
