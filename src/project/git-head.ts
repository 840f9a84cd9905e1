import { join, resolve } from "node:path";
import { printable } from "../base/printable.js";
import { PathGuard } from "../files/path-guard.js";

/** Such files are a line long. */
const MOST_BYTES = 4_096;
/** Characters of a branch's name. */
const NAME = 200;
/** What git itself takes as the name of a branch: of anything else the file says words that are nobody's. */
const BRANCH = /^(?!\/|.*\/\/|.*(?:^|\/)(?:\.|$))(?!.*(?:\.\.|@\{|\.lock(?:\/|$)|\.$))[^\s\p{C}~^:?*[\\]+$/u;
/** What git leaves in its folder while something is under way. */
const UNDER_WAY = [
  ["rebase-merge", "rebase"],
  ["rebase-apply", "rebase"],
  ["MERGE_HEAD", "merge"],
  ["CHERRY_PICK_HEAD", "cherry-pick"],
  ["REVERT_HEAD", "revert"],
  ["BISECT_LOG", "bisect"],
] as const;

/**
 * On which branch a repository is, and what is under way there, in a few words; `""` where that cannot be told. Its files
 * are read and git is not asked: that would run what the repository's own settings name.
 */
export async function gitHead(root: string, denied: readonly string[]): Promise<string> {
  try {
    // The folder of a worktree lies elsewhere. Nothing of it is shown but a branch's name, or a commit's.
    const guard = await PathGuard.create({ roots: "anywhere", denied });
    const folder = await gitFolder(guard, root);
    const head = await line(guard, join(folder, "HEAD"));
    const named = /^ref: refs\/heads\/(.+)$/.exec(head)?.[1];
    const branch = named !== undefined && named.length <= NAME && BRANCH.test(named) ? named : undefined;
    const commit = /^[0-9a-f]{40,64}$/.exec(head)?.[0];
    if (branch === undefined && commit === undefined) return "";
    const where = branch === undefined ? `no branch, at commit ${commit?.slice(0, 12)}` : `branch ${printable(branch)}`;
    const doing = await underWay(guard, folder);
    return doing === undefined ? where : `${where}, in the middle of a ${doing}`;
  } catch {
    return "";
  }
}

/** `.git`, or what the file of that name points to. */
async function gitFolder(guard: PathGuard, root: string): Promise<string> {
  const git = join(root, ".git");
  if ((await guard.resolve(git)).isFolder) return git;
  const pointer = /^gitdir: (.+)$/.exec(await line(guard, git))?.[1];
  if (pointer === undefined) throw new Error("no repository");
  return resolve(root, pointer.trim());
}

/** The first line of a file. */
async function line(guard: PathGuard, path: string): Promise<string> {
  const { handle } = await guard.openFile(path);
  try {
    const buffer = Buffer.alloc(MOST_BYTES);
    const { bytesRead } = await handle.read(buffer, 0, MOST_BYTES, 0);
    return buffer.toString("utf8", 0, bytesRead).split("\n", 1)[0]?.trimEnd() ?? "";
  } finally {
    await handle.close();
  }
}

async function underWay(guard: PathGuard, path: string): Promise<string | undefined> {
  const folder = await guard.openFolder(path);
  try {
    for (const [name, what] of UNDER_WAY) if (await folder.stat(name)) return what;
    return undefined;
  } finally {
    await folder.close();
  }
}
