import type { PathGuard } from "../files/path-guard.js";
import { runRipgrep, type RipgrepEnd } from "./ripgrep.js";
import {
  resolveMatchPath,
  NulRecordParser,
  openSearchScope,
  SEARCH_TIMEOUT_MS,
  type SearchScope,
} from "./search-scope.js";

export interface ListOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
  /** Additional arguments for ripgrep. */
  readonly args?: readonly string[];
}

/**
 * Lists regular files by their path relative to the base of `scope`, as `./a/b`, in no particular order. `onName`
 * returns false to stop.
 */
export function listFiles(
  scope: SearchScope,
  { signal, timeoutMs = SEARCH_TIMEOUT_MS, args = [] }: ListOptions,
  onName: (name: string) => boolean,
): Promise<RipgrepEnd> {
  const records = new NulRecordParser();
  return runRipgrep({
    args: ["--files", "--null", ...args, ...scope.flags, "--", scope.root],
    cwd: scope.cwd,
    signal,
    timeoutMs,
    onOutput: (chunk) => records.push(chunk, onName),
  });
}

/** Paths below a folder, down to a depth, that ignore files exclude. */
export interface IgnoredPaths {
  readonly paths: ReadonlySet<string>;
  /** Whether the list may be incomplete, because of the time limit or the maximum number of paths. */
  readonly isIncomplete: boolean;
}

/**
 * Finds the real paths that ignore files exclude in a folder and, down to `depth`, in its subfolders. Rejects like
 * `openSearchScope`.
 */
export async function findIgnoredPaths(
  guard: PathGuard,
  folder: string,
  project: string,
  { depth, signal, timeoutMs = SEARCH_TIMEOUT_MS }: { depth: number; signal: AbortSignal; timeoutMs?: number },
): Promise<IgnoredPaths> {
  const scope = await openSearchScope(guard, { path: folder, isFolder: true }, { project, all: false });
  try {
    const paths = new Set<string>();
    const { endReason } = await runRipgrep({
      args: ["--files", `--max-depth=${depth}`, ...scope.flags, "--", scope.root],
      cwd: scope.cwd,
      signal,
      timeoutMs,
      onIgnored: (name) => void (paths.size < MAX_IGNORED_PATHS && paths.add(resolveMatchPath(scope, name))),
    });
    return { paths, isIncomplete: endReason === "timeout" || paths.size >= MAX_IGNORED_PATHS };
  } finally {
    await scope.close();
  }
}

const MAX_IGNORED_PATHS = 200_000;
