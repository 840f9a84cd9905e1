import { join, resolve } from "node:path";
import { toPrintable } from "../base/printable.js";
import { PathGuard } from "../files/path-guard.js";

/** Maximum bytes read of a file in the Git folder. Such files have one line. */
const MAX_LINE_BYTES = 4_096;
/** Maximum characters of a branch name. */
const MAX_BRANCH_CHARACTERS = 200;
/** Branch names that Git itself accepts. Any other text could be an injected instruction. */
const BRANCH_NAME = /^(?!\/|.*\/\/|.*(?:^|\/)(?:\.|$))(?!.*(?:\.\.|@\{|\.lock(?:\/|$)|\.$))[^\s\p{C}~^:?*[\\]+$/u;
/** Files in the Git folder that mark an unfinished operation. */
const OPERATION_FILES = [
  ["rebase-merge", "rebase"],
  ["rebase-apply", "rebase"],
  ["MERGE_HEAD", "merge"],
  ["CHERRY_PICK_HEAD", "cherry-pick"],
  ["REVERT_HEAD", "revert"],
  ["BISECT_LOG", "bisect"],
] as const;

/**
 * Describes the current branch or commit and an unfinished operation. Returns `""` if the branch or commit cannot be
 * determined. Never rejects.
 *
 * Reads the files of the repository and does not run Git, because Git would run commands from the repository's
 * settings.
 */
export async function describeGitHead(root: string, deniedPaths: readonly string[]): Promise<string> {
  try {
    // The Git folder of a worktree may lie outside the project. Only the branch name, the commit and the operation are
    // returned.
    const guard = await PathGuard.create({ roots: "anywhere", deniedPaths });
    const folder = await findGitFolder(guard, root);
    const head = await readFirstLine(guard, join(folder, "HEAD"));
    const branchName = /^ref: refs\/heads\/(.+)$/.exec(head)?.[1];
    const branch =
      branchName !== undefined && branchName.length <= MAX_BRANCH_CHARACTERS && BRANCH_NAME.test(branchName)
        ? branchName
        : undefined;
    const commit = /^[0-9a-f]{40,64}$/.exec(head)?.[0];
    if (branch === undefined && commit === undefined) return "";
    const headText =
      branch === undefined ? `no branch, at commit ${commit?.slice(0, 12)}` : `branch ${toPrintable(branch)}`;
    const operation = await findOperation(guard, folder);
    return operation === undefined ? headText : `${headText}, in the middle of a ${operation}`;
  } catch {
    return "";
  }
}

/** Returns the path of the Git folder: `.git`, or the folder that a `.git` file names. */
async function findGitFolder(guard: PathGuard, root: string): Promise<string> {
  const gitPath = join(root, ".git");
  if ((await guard.resolve(gitPath)).isFolder) return gitPath;
  const pointer = /^gitdir: (.+)$/.exec(await readFirstLine(guard, gitPath))?.[1];
  if (pointer === undefined) throw new Error("no repository");
  return resolve(root, pointer.trim());
}

/** Reads the first line of a file. */
async function readFirstLine(guard: PathGuard, path: string): Promise<string> {
  const { handle } = await guard.openFile(path);
  try {
    const buffer = Buffer.alloc(MAX_LINE_BYTES);
    const { bytesRead } = await handle.read(buffer, 0, MAX_LINE_BYTES, 0);
    return buffer.toString("utf8", 0, bytesRead).split("\n", 1)[0]?.trimEnd() ?? "";
  } finally {
    await handle.close();
  }
}

async function findOperation(guard: PathGuard, path: string): Promise<string | undefined> {
  const folder = await guard.openFolder(path);
  try {
    for (const [name, operation] of OPERATION_FILES) if (await folder.stat(name)) return operation;
    return undefined;
  } finally {
    await folder.close();
  }
}
