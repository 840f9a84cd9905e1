import { execFileSync } from "node:child_process";

/** Runs Git in a folder, without the user's settings. Returns the output. */
export type RunGit = (...args: readonly string[]) => string;

export function createGitRunner(folder: string): RunGit {
  return (...args) =>
    execFileSync("git", ["-c", "user.name=x", "-c", "user.email=x@example.com", ...args], {
      cwd: folder,
      encoding: "utf8",
      env: { PATH: process.env["PATH"], HOME: folder, GIT_CONFIG_NOSYSTEM: "1" },
    }).trim();
}

/** Commits all files of a folder to a new repository in it. */
export function createRepository(folder: string): RunGit {
  const git = createGitRunner(folder);
  git("init", "--quiet", "--initial-branch=main");
  git("add", ".");
  git("commit", "--quiet", "--message=first");
  return git;
}
