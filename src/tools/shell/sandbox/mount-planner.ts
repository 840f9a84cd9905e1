import { existsSync, lstatSync, mkdirSync, realpathSync, unlinkSync, type Stats } from "node:fs";
import { lstat, realpath } from "node:fs/promises";
import { basename, dirname, join, sep } from "node:path";
import { attempt } from "../../../base/attempt.js";
import { isInside } from "../../../files/path-guard.js";
import { ToolError } from "../../../ports/errors.js";
import { MountPlan } from "./mount-plan.js";
import { guardGit, findRepositoryFolder, type GitGuard } from "./sandbox-git.js";
import type { Root, SandboxRoots } from "./sandbox-roots.js";
import { findListeningSockets } from "./sandbox-sockets.js";
import { ScratchFolders } from "./scratch-folders.js";

/** Rules for the files of commands. */
export interface MountRules {
  /** Absolute paths of further folders that commands may write to. */
  allowPaths: readonly string[];
  /** Absolute paths that are hidden in the sandbox. */
  deniedPaths: readonly string[];
  /** Absolute paths that are read-only, even inside a writable folder. Default: none. */
  readOnlyPaths?: readonly string[];
  /**
   * Absolute path of a folder for temporary folders, one per project. Undefined: each command gets empty temporary
   * folders.
   */
  scratchPath?: string | undefined;
}

export interface MountPlannerOptions extends MountRules {
  /** Home folder of the commands. Undefined or `""`: none. */
  homePath: string | undefined;
  /** Whether commands can use the network. */
  network: boolean;
  /** Whether to reject a project folder that contains the home folder. */
  isStrict: boolean;
}

/** A command's folders and properties that decide its mounts. */
export interface MountRequest {
  project: Root;
  additionalRoots: readonly Root[];
  /** Whether the command continues after its call. */
  isLasting: boolean;
  /** Whether the command has capabilities of root. */
  hasCapabilities: boolean;
}

/** The planned mounts of a command. */
export interface CommandMounts {
  plan: MountPlan;
  /** Folders that the command may write to. */
  roots: Root[];
  guards: GitGuard[];
}

/**
 * Download folders of package managers, relative to the home folder. Excludes folders with programs that users call by
 * name.
 */
const DOWNLOAD_PATHS = [
  ".npm/_cacache",
  ".npm/_logs",
  ".cache/pip",
  ".cache/uv",
  ".cache/yarn",
  ".cache/deno",
  ".yarn/berry/cache",
  ".bun/install/cache",
  ".local/share/pnpm/store",
  ".cargo/registry",
  ".cargo/git",
  ".m2/repository",
  ".nuget/packages",
  "go/pkg/mod",
];

/**
 * Files in a home folder that run automatically. They are read-only if the home folder itself is writable, as when it
 * is the project.
 */
const AUTOSTART_PATHS = [
  ...[".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"],
  ...[".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".gitconfig", ".npmrc", ".yarnrc", ".yarnrc.yml"],
  ...[".config", ".ssh", ".gnupg", ".docker", ".local/bin", ".local/share/applications", ".local/share/systemd"],
  ...["bin", ".cargo/bin", ".cargo/config.toml", ".cargo/env", ".bun/bin"],
  ...[".gradle", ".m2", ".nvm", ".pyenv", ".mozilla"],
];

/** Paths below /run that stay visible. The target of /etc/resolv.conf is added. */
const VISIBLE_RUN_PATHS = ["/run/current-system", "/run/booted-system", "/run/opengl-driver"];

/** Decides which files a command can read and write in the sandbox. */
export class MountPlanner {
  readonly #options: MountPlannerOptions;
  readonly #roots: SandboxRoots;
  readonly #scratchFolders: ScratchFolders;

  constructor(options: MountPlannerOptions, roots: SandboxRoots) {
    this.#options = options;
    this.#roots = roots;
    this.#scratchFolders = new ScratchFolders(options.scratchPath);
  }

  /** Plans the mounts and creates their mount points. Rejects with `ToolError` if the command must not run. */
  async plan({ project, additionalRoots, isLasting, hasCapabilities }: MountRequest): Promise<CommandMounts> {
    const { allowPaths, deniedPaths, readOnlyPaths = [], homePath, network, isStrict } = this.#options;
    const plan = new MountPlan();
    // Concurrent, because each look-up waits for the thread pool.
    const [home, readOnlyRealPaths, deniedRealPaths, allowedRoots, repository] = await Promise.all([
      homePath ? resolveRealPath(homePath) : undefined,
      Promise.all(readOnlyPaths.map(resolveRealPath)),
      Promise.all(deniedPaths.map(resolveRealPath)),
      this.#roots.openAll(allowPaths),
      findRepositoryFolder(project.path),
    ]);
    if (isStrict) for (const { path } of [project, ...additionalRoots]) requireProjectFolder(path, home);
    await this.#scratchFolders.addTo(plan, project.path);
    addRunFolders(plan);
    if (home !== undefined && plan.isHidden(home)) plan.makeReadOnly(home);

    const writableRoots = [project, ...additionalRoots, ...allowedRoots];
    // Without the network nothing can be downloaded. Most of these folders are missing, and `existsSync` detects that
    // at a hundredth of the cost.
    // `join` would be called so often that V8 optimizes it, which takes 16 ms and 4 MB in an idle process.
    const downloadPaths = network && home !== undefined ? DOWNLOAD_PATHS.map((name) => `${home}/${name}`) : [];
    const roots = [...writableRoots, ...(await this.#roots.openAll(downloadPaths.filter((path) => existsSync(path))))];
    for (const { path } of roots) plan.makeWritable(path);
    if (home !== undefined) await protectAutostart(plan, home);
    for (const realPath of readOnlyRealPaths)
      if (realPath !== undefined && plan.isWritable(realPath)) plan.makeReadOnly(realPath);
    const repositories = new Set([repository, ...writableRoots.map(({ path }) => path)]);
    const guards: GitGuard[] = [];
    for (const folder of repositories) if (folder !== undefined) guards.push(await guardGit(plan, folder, isLasting));
    await hideDeniedPaths(plan, deniedPaths, deniedRealPaths);
    if (plan.isHidden(project.path))
      throw new ToolError("the project folder is in a path that is hidden from commands.");
    for (const path of await findListeningSockets(hasCapabilities)) if (!plan.isHidden(path)) plan.hide(path, false);
    createMountPoints(plan);
    return { plan, roots, guards };
  }
}

function requireProjectFolder(folder: string, home: string | undefined): void {
  if ([home ?? "/", "/"].some((path) => path !== folder && isInside(path, folder)))
    throw new ToolError(`${folder} contains more than a project: the sandbox does not open it for commands.`);
}

/** Empties /run, which contains sockets of system services, except for the paths that stay visible. */
function addRunFolders(plan: MountPlan): void {
  plan.replace("/run");
  if (readStatsSync("/var/run")?.isDirectory()) plan.replace("/var/run");
  for (const path of [...VISIBLE_RUN_PATHS, "/etc/resolv.conf"]) {
    const realPath = resolveRealPathSync(path);
    if (realPath !== undefined && isInside(path, "/run")) plan.makeReadOnly(path, realPath);
    if (realPath !== undefined && isInside(realPath, "/run")) plan.makeReadOnly(realPath);
  }
}

async function hideDeniedPaths(
  plan: MountPlan,
  deniedPaths: readonly string[],
  realPaths: readonly (string | undefined)[],
): Promise<void> {
  const stats = await Promise.all(realPaths.map(async (path) => (path === undefined ? undefined : lstat(path))));
  for (const [i, path] of deniedPaths.entries()) {
    const realPath = realPaths[i];
    if (realPath !== undefined) plan.hide(realPath, stats[i]?.isDirectory() === true);
    else if (/-(wal|shm|journal)$/.test(path)) await hideMissing(plan, path);
  }
}

/** Hides a missing file beside a database, which would read the file: a command must not create it. */
async function hideMissing(plan: MountPlan, path: string): Promise<void> {
  const folder = await resolveRealPath(dirname(path));
  if (folder !== undefined && plan.isWritable(folder)) plan.hide(join(folder, basename(path)), false);
}

/** Resolves a path. Undefined if the path does not exist. */
function resolveRealPath(path: string): Promise<string | undefined> {
  return realpath(path).catch(() => undefined);
}

/**
 * Synchronous variant for system folders and gantry's own folders. A round trip to the thread pool would take longer.
 */
function resolveRealPathSync(path: string): string | undefined {
  return attempt(() => realpathSync.native(path), undefined);
}

function readStatsSync(path: string): Stats | undefined {
  return attempt(() => lstatSync(path), undefined);
}

async function protectAutostart(plan: MountPlan, home: string): Promise<void> {
  if (!plan.isWritable(home)) return;
  for (const name of AUTOSTART_PATHS) {
    const realPath = await resolveRealPath(join(home, name));
    if (realPath !== undefined && plan.isWritable(realPath)) plan.makeReadOnly(realPath);
  }
}

/**
 * Creates the mount points in the temporary folders. Bubblewrap would create them itself and follow links. A link that
 * an earlier command created there could lead bubblewrap outside.
 */
function createMountPoints(plan: MountPlan): void {
  for (const { source, relativePath } of plan.listMountPoints()) {
    const names = relativePath.split(sep);
    let mountPoint = source;
    for (const [i, name] of names.entries()) {
      mountPoint = join(mountPoint, name);
      const stats = readStatsSync(mountPoint);
      if (stats && !stats.isDirectory() && (i < names.length - 1 || stats.isSymbolicLink())) unlinkSync(mountPoint);
      if (i < names.length - 1 && !stats?.isDirectory()) mkdirSync(mountPoint, { mode: 0o700 });
    }
  }
}
