import { lstat, mkdir, readFile, readdir, realpath, rm } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import type { MountPlan } from "./mount-plan.js";

/** More submodules than anybody has; beyond, none of them can be written to. */
const MOST_MODULES = 200;

/** What makes git run a program, or names a place where it reads that. */
const SETTINGS = ["config", "config.worktree", "commondir", "hooks"];

/** Of a repository that commands may write to. */
export interface GitGuard {
  /** Take away what a command must not leave behind. Returns paths of what was there. */
  tidy(): Promise<string[]>;
}

/**
 * Commits work, but what makes git run a program the next time that a person calls it stays as it is: settings, hooks,
 * those of submodules, and the place where they are. Nothing can be mounted where nothing is: what was missing before a
 * command is taken away after it.
 *
 * @param isLasting Whether people call git while the command runs, which has no end: all of a repository is read-only then.
 */
export async function guardGit(plan: MountPlan, folder: string, isLasting = false): Promise<GitGuard> {
  const git = join(folder, ".git");
  const stats = await lstat(git).catch(() => undefined);
  if (isLasting) {
    if (stats === undefined || !plan.isWritable(git)) return guardOf([]);
    plan.keep(git);
    return guardOf(stats.isDirectory() ? await keepAll(plan, await namedIn(join(git, "config"), git, folder)) : []);
  }
  if (stats?.isFile()) {
    // A worktree or submodule: who can write the file chooses where the settings are.
    plan.keep(git);
    return guardOf(await openWorktree(plan, git, folder));
  }
  if (!stats?.isDirectory()) return guardOf([]);
  plan.write(git);
  const missing = await keepSettings(plan, git, folder);
  const modules = await modulesOf(join(git, "modules"));
  if (modules === undefined) plan.keep(join(git, "modules"));
  else for (const module of modules) missing.push(...(await keepSettings(plan, module, folder)));
  if (await isFolder(join(git, "worktrees"))) plan.keep(join(git, "worktrees"));
  return guardOf(missing);
}

/** @param missing What was not there before the command. */
function guardOf(missing: readonly string[]): GitGuard {
  return {
    tidy: async () => {
      const there = await present(missing);
      for (const path of there) await rm(path, { recursive: true, force: true }).catch(() => undefined);
      return there;
    },
  };
}

/**
 * The file of a worktree names a folder in another repository, and whoever wrote it chose which. It is believed where
 * that folder names this file: a repository that somebody cloned cannot have arranged that. What a commit needs is
 * opened then, and no more.
 */
async function openWorktree(plan: MountPlan, file: string, folder: string): Promise<string[]> {
  const line = /^gitdir: (.+?)\s*$/.exec(await readFile(file, "utf8").catch(() => ""))?.[1];
  const own = line === undefined ? undefined : await realpath(resolve(dirname(file), line)).catch(() => undefined);
  if (own === undefined || basename(dirname(own)) !== "worktrees") return [];
  const back = (await readFile(join(own, "gitdir"), "utf8").catch(() => "")).trim();
  const common = dirname(dirname(own));
  const named = (await readFile(join(own, "commondir"), "utf8").catch(() => "")).trim();
  if ((await realpath(back).catch(() => undefined)) !== file || resolve(own, named) !== common) return [];
  for (const path of [own, ...["objects", "refs", "logs"].map((name) => join(common, name))])
    if (await isFolder(path)) plan.write(path);
  const settings = ["commondir", "gitdir", "config.worktree"].map((name) => join(own, name));
  return keepAll(plan, [...settings, ...(await namedIn(join(common, "config"), common, folder))]);
}

/** Returns what is not there. */
async function keepSettings(plan: MountPlan, git: string, folder: string): Promise<string[]> {
  // Where there are no hooks, none can be made.
  await mkdir(join(git, "hooks")).catch(() => undefined);
  const paths = [...SETTINGS.map((name) => join(git, name)), ...(await namedIn(join(git, "config"), git, folder))];
  return keepAll(plan, paths);
}

/** Of what commands could write to. Returns what is not there. */
async function keepAll(plan: MountPlan, paths: readonly string[]): Promise<string[]> {
  const there = await present(paths);
  for (const path of there) {
    const real = await realpath(path).catch(() => undefined);
    if (real !== undefined && plan.isWritable(real)) plan.keep(real);
  }
  return paths.filter((path) => !there.includes(path) && plan.isWritable(path));
}

/** Other places that the settings name: hooks that a project keeps among its files, more settings. */
async function namedIn(config: string, git: string, folder: string): Promise<string[]> {
  const text = await readFile(config, "utf8").catch(() => "");
  const named = [...text.matchAll(/^\s*(hookspath|path|fsmonitor)\s*=\s*"?([^"\r\n]+?)"?\s*$/gim)];
  return named.flatMap(([, key = "", value = ""]) => {
    if (isAbsolute(value)) return [value];
    if (value.startsWith("~")) return [];
    return [join(key.toLowerCase() === "path" ? git : folder, value)];
  });
}

/** Folders below `modules` that are repositories, however deep their names are; undefined when there are too many. */
async function modulesOf(folder: string): Promise<string[] | undefined> {
  const found: string[] = [];
  const waiting = [folder];
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    const names = await readdir(at, { withFileTypes: true }).catch(() => []);
    const isRepository = names.some(({ name }) => name === "HEAD");
    if (isRepository) found.push(at);
    const below = isRepository ? names.filter(({ name }) => name === "modules") : names;
    waiting.push(...below.filter((entry) => entry.isDirectory()).map(({ name }) => join(at, name)));
    if (found.length > MOST_MODULES || waiting.length > 10 * MOST_MODULES) return undefined;
  }
  return found;
}

/** The nearest folder from `path` upwards that is a repository's. */
export async function repositoryOf(path: string): Promise<string | undefined> {
  const folders = [path];
  for (let at = path; dirname(at) !== at; at = dirname(at)) folders.push(dirname(at));
  const stats = await Promise.all(folders.map((at) => lstat(join(at, ".git")).catch(() => undefined)));
  return folders.find((_at, i) => stats[i] !== undefined);
}

async function isFolder(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined))?.isDirectory() === true;
}

async function present(paths: readonly string[]): Promise<string[]> {
  const stats = await Promise.all(paths.map((path) => lstat(path).catch(() => undefined)));
  return paths.filter((_path, i) => stats[i] !== undefined);
}
