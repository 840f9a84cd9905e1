import type { PathGuard } from "../files/path-guard.js";
import { runRipgrep, type RipgrepEnd } from "./ripgrep.js";
import { foundPath, NulRecords, openSearchPlace, SEARCH_MS, type SearchPlace } from "./search-place.js";

export interface ListOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
  /** Further arguments of ripgrep. */
  readonly args?: readonly string[];
}

/** Lists regular files by their paths from the place's base, as `./a/b`, in no order. `take` returns false to end it. */
export function listFiles(
  place: SearchPlace,
  { signal, timeoutMs = SEARCH_MS, args = [] }: ListOptions,
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

/** Paths that ignore files hide below a folder, to a depth. */
export interface Ignored {
  readonly paths: ReadonlySet<string>;
  /** Whether the search took too long, so that there may be more. */
  readonly isIncomplete: boolean;
}

/** Finds what ignore files hide in a folder and, to `depth`, in its folders: real paths. Rejects as `openSearchPlace` does. */
export async function ignoredBelow(
  guard: PathGuard,
  folder: string,
  project: string,
  { depth, signal, timeoutMs = SEARCH_MS }: { depth: number; signal: AbortSignal; timeoutMs?: number },
): Promise<Ignored> {
  const place = await openSearchPlace(guard, { path: folder, isFolder: true }, { project, all: false });
  try {
    const paths = new Set<string>();
    const { why } = await runRipgrep({
      args: ["--files", `--max-depth=${depth}`, ...place.flags, "--", place.root],
      cwd: place.cwd,
      signal,
      timeoutMs,
      onIgnored: (name) => void (paths.size < MAX_IGNORED && paths.add(foundPath(place, name))),
    });
    return { paths, isIncomplete: why === "timeout" || paths.size >= MAX_IGNORED };
  } finally {
    await place.close();
  }
}

const MAX_IGNORED = 200_000;
