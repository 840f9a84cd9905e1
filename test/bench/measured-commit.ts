// The commit whose figures docs/performance.md shows.
import { execFileSync } from "node:child_process";
import path from "node:path";
import { ROOT } from "./bench.js";

export const DOCUMENT = path.join(ROOT, "docs/performance.md");
/** Folders whose code the rows measure. */
export const MEASURED_FOLDERS = ["src", "adapters"] as const;
/** Folders whose changes change the measured build. */
const BUILT_FOLDERS = [...MEASURED_FOLDERS, ".ci"];

/** Changes of a folder since a commit. */
export interface FolderChanges {
  folder: string;
  commits: number;
  /** Added and removed lines. */
  lines: number;
}

function runGit(...args: string[]): string {
  // The variables of a hook name the repository that runs the hook.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("GIT_")));
  return execFileSync("git", args, { cwd: ROOT, encoding: "utf8", env, stdio: ["ignore", "pipe", "pipe"] }).trim();
}

/** Whether a Git command succeeds. */
function succeeds(...args: string[]): boolean {
  try {
    runGit(...args);
    return true;
  } catch {
    return false;
  }
}

/** Returns the line that names the current commit. Throws if the code that it builds differs from the commit. */
export function describeCommit(): string {
  const changes = runGit("status", "--porcelain", "--", ...BUILT_FOLDERS);
  if (changes !== "")
    throw new Error(`the figures would name a commit that was not measured; commit these changes first:\n${changes}`);
  const [hash, date] = runGit("log", "-1", "--date=short", "--format=%h %cd").split(" ");
  return `Measured at commit ${hash} of ${date}.`;
}

/** Returns the hash that the text of docs/performance.md names; undefined if it names none. */
export function findMeasuredCommit(text: string): string | undefined {
  const [, table = ""] = /<!-- bench:begin -->([^]*)<!-- bench:end -->/.exec(text) ?? [];
  return /^Measured at commit ([0-9a-f]{7,40}) /m.exec(table)?.[1];
}

/** Returns why the history of this folder is not known; undefined if it is. */
export function getMissingHistoryReason(): string | undefined {
  try {
    // A copy without its own history may be in a folder of another repository.
    if (path.relative(runGit("rev-parse", "--show-toplevel"), ROOT) !== "") return "this folder is no Git work tree";
    return runGit("rev-parse", "--is-shallow-repository") === "true" ? "this clone is shallow" : undefined;
  } catch (error) {
    return `Git cannot read this folder: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** Whether the current commit contains a commit. */
export function hasCommit(hash: string): boolean {
  return succeeds("merge-base", "--is-ancestor", hash, "HEAD");
}

/** Counts the changes of each measured folder since a commit. */
export function countChanges(hash: string): FolderChanges[] {
  return MEASURED_FOLDERS.map((folder) => {
    const summary = runGit("diff", "--shortstat", hash, "HEAD", "--", folder);
    const lines = [...summary.matchAll(/(\d+) (?:insertion|deletion)/g)].reduce(
      (sum, [, count]) => sum + Number(count),
      0,
    );
    return { folder, commits: Number(runGit("rev-list", "--count", `${hash}..HEAD`, "--", folder)), lines };
  });
}
