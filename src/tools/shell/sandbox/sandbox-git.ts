import { lstat, mkdir, readFile, readdir, realpath, rm } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, resolve } from "node:path";
import type { MountPlan } from "./mount-plan.js";

/** Maximum submodules. If there are more, all submodules are read-only. */
const MAX_MODULES = 200;

/** Entries of a Git folder that make Git run a program, or that name further settings. */
const SETTINGS_ENTRIES = ["config", "config.worktree", "commondir", "hooks"];

/** Cleanup for a repository that commands may write to. */
export interface GitGuard {
  /** Removes entries that a command must not leave behind. Returns the removed paths. */
  tidy(): Promise<string[]>;
}

/**
 * Makes Git settings and hooks read-only in the sandbox, also those of submodules. Commits still work, but a command
 * cannot make Git run a program the next time a user calls it.
 *
 * A missing path cannot be mounted: `tidy` of the result removes it after the command.
 *
 * @param isLasting Whether the command continues while users call Git. The whole Git folder is then read-only. Default:
 * false.
 */
export async function guardGit(plan: MountPlan, folder: string, isLasting = false): Promise<GitGuard> {
  const gitPath = join(folder, ".git");
  const stats = await lstat(gitPath).catch(() => undefined);
  if (isLasting) {
    if (stats === undefined || !plan.isWritable(gitPath)) return createGuard([]);
    plan.makeReadOnly(gitPath);
    return createGuard(
      stats.isDirectory()
        ? await protectPaths(plan, await readConfigPaths(join(gitPath, "config"), gitPath, folder))
        : [],
    );
  }
  if (stats?.isFile()) {
    // The `.git` file of a worktree or submodule. A writer of this file could choose other settings.
    plan.makeReadOnly(gitPath);
    return createGuard(await openWorktree(plan, gitPath, folder));
  }
  if (!stats?.isDirectory()) return createGuard([]);
  plan.makeWritable(gitPath);
  const missingPaths = await protectSettings(plan, gitPath, folder);
  const modules = await findModules(join(gitPath, "modules"));
  if (modules === undefined) plan.makeReadOnly(join(gitPath, "modules"));
  else for (const module of modules) missingPaths.push(...(await protectSettings(plan, module, folder)));
  if (await isFolder(join(gitPath, "worktrees"))) plan.makeReadOnly(join(gitPath, "worktrees"));
  return createGuard(missingPaths);
}

/** @param missingPaths Paths that did not exist before the command. */
function createGuard(missingPaths: readonly string[]): GitGuard {
  return {
    tidy: async () => {
      const presentPaths = await findExistingPaths(missingPaths);
      for (const path of presentPaths) await rm(path, { recursive: true, force: true }).catch(() => undefined);
      return presentPaths;
    },
  };
}

/**
 * Opens the Git folder of a worktree, as far as commits need it. The `.git` file names a folder in another repository
 * and could come from an attacker.
 *
 * The named folder is trusted only if it names this `.git` file in turn. A cloned repository cannot arrange that.
 */
async function openWorktree(plan: MountPlan, file: string, folder: string): Promise<string[]> {
  const linkedPath = /^gitdir: (.+?)\s*$/.exec(await readFile(file, "utf8").catch(() => ""))?.[1];
  const gitFolder =
    linkedPath === undefined ? undefined : await realpath(resolve(dirname(file), linkedPath)).catch(() => undefined);
  if (gitFolder === undefined || basename(dirname(gitFolder)) !== "worktrees") return [];
  const namedFile = (await readFile(join(gitFolder, "gitdir"), "utf8").catch(() => "")).trim();
  const commonFolder = dirname(dirname(gitFolder));
  const commonPath = (await readFile(join(gitFolder, "commondir"), "utf8").catch(() => "")).trim();
  if ((await realpath(namedFile).catch(() => undefined)) !== file || resolve(gitFolder, commonPath) !== commonFolder)
    return [];
  for (const path of [gitFolder, ...["objects", "refs", "logs"].map((name) => join(commonFolder, name))])
    if (await isFolder(path)) plan.makeWritable(path);
  const settings = ["commondir", "gitdir", "config.worktree"].map((name) => join(gitFolder, name));
  return protectPaths(plan, [
    ...settings,
    ...(await readConfigPaths(join(commonFolder, "config"), commonFolder, folder)),
  ]);
}

/** Makes the settings of a Git folder read-only. Returns the missing paths. */
async function protectSettings(plan: MountPlan, gitPath: string, folder: string): Promise<string[]> {
  // Creates the hooks folder if it is missing, so that it can be mounted read-only.
  await mkdir(join(gitPath, "hooks")).catch(() => undefined);
  const paths = [
    ...SETTINGS_ENTRIES.map((name) => join(gitPath, name)),
    ...(await readConfigPaths(join(gitPath, "config"), gitPath, folder)),
  ];
  return protectPaths(plan, paths);
}

/** Makes existing paths read-only. Returns the missing paths that commands could create. */
async function protectPaths(plan: MountPlan, paths: readonly string[]): Promise<string[]> {
  const presentPaths = await findExistingPaths(paths);
  for (const path of presentPaths) {
    const realPath = await realpath(path).catch(() => undefined);
    if (realPath !== undefined && plan.isWritable(realPath)) plan.makeReadOnly(realPath);
  }
  return paths.filter((path) => !presentPaths.includes(path) && plan.isWritable(path));
}

/** Returns paths that the Git config names: hooks inside the project, and further settings. */
async function readConfigPaths(config: string, gitPath: string, folder: string): Promise<string[]> {
  const text = await readFile(config, "utf8").catch(() => "");
  const settingMatches = [...text.matchAll(/^\s*(hookspath|path|fsmonitor)\s*=\s*"?([^"\r\n]+?)"?\s*$/gim)];
  return settingMatches.flatMap(([, key = "", value = ""]) => {
    if (isAbsolute(value)) return [value];
    if (value.startsWith("~")) return [];
    return [join(key.toLowerCase() === "path" ? gitPath : folder, value)];
  });
}

/** Returns the submodule repositories below `folder`, at any depth. Undefined if there are too many. */
async function findModules(folder: string): Promise<string[] | undefined> {
  const repositories: string[] = [];
  const pendingFolders = [folder];
  for (let current = pendingFolders.pop(); current !== undefined; current = pendingFolders.pop()) {
    const names = await readdir(current, { withFileTypes: true }).catch(() => []);
    const isRepository = names.some(({ name }) => name === "HEAD");
    if (isRepository) repositories.push(current);
    const entries = isRepository ? names.filter(({ name }) => name === "modules") : names;
    pendingFolders.push(...entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(current, name)));
    // A tree without repositories must end too.
    if (repositories.length > MAX_MODULES || pendingFolders.length > 10 * MAX_MODULES) return undefined;
  }
  return repositories;
}

/** Returns the nearest folder, from `path` upwards, that contains `.git`. Undefined if there is none. */
export async function findRepositoryFolder(path: string): Promise<string | undefined> {
  const folders = [path];
  for (let ancestor = path; dirname(ancestor) !== ancestor; ancestor = dirname(ancestor))
    folders.push(dirname(ancestor));
  const stats = await Promise.all(folders.map((folder) => lstat(join(folder, ".git")).catch(() => undefined)));
  return folders.find((_at, i) => stats[i] !== undefined);
}

async function isFolder(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined))?.isDirectory() === true;
}

async function findExistingPaths(paths: readonly string[]): Promise<string[]> {
  const stats = await Promise.all(paths.map((path) => lstat(path).catch(() => undefined)));
  return paths.filter((_path, i) => stats[i] !== undefined);
}
