import { realpathSync } from "node:fs";
import { lstat, readdir, realpath, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { attempt } from "../base/attempt.js";
import { PathError } from "../ports/errors.js";
import { HandleOpener } from "./handle-opener.js";
import { NameOpener } from "./name-opener.js";
import { hasHandlePaths } from "./handles.js";
import { asPathError, isInside } from "./names.js";
import type { OpenedFolder } from "./opened-folder.js";
import type { OpenedFile } from "./opened-file.js";
import type { Opener, Target } from "./opener.js";
import { refuseChange, type Protection } from "./protection.js";
import { AccessRules } from "./access-rules.js";

export { asPathError, isInside };
export { OpenedFolder } from "./opened-folder.js";
export type { OpenedFile } from "./opened-file.js";
export type { Target } from "./opener.js";

/** Paths that may be opened. All paths are absolute. */
export interface PathLimits {
  /** Folders that contain all allowed paths. `"anywhere"`: no such limit. */
  readonly roots: readonly string[] | "anywhere";
  /** Paths denied within any root: gantry's home, store and config. */
  readonly deniedPaths: readonly string[];
  /** Paths that may be read but not changed. Default: none. */
  readonly protection?: Protection;
}

/** Maximum entries of the denied folders that are scanned for files with hard links. */
const MAX_DENIED_ENTRIES = 10_000;

/**
 * Opens all paths of a project. Decisions depend on the real path of the open file, not on its name. Changes happen in
 * a folder that is held open.
 *
 * All methods reject with `PathError`.
 */
export class PathGuard {
  readonly #rules: AccessRules;
  readonly #opener: Opener;
  readonly #limits: PathLimits;
  /** The roots, both as configured and resolved. */
  readonly #roots: readonly string[];
  readonly #deniedPaths: readonly string[];
  #linkedDeniedFiles: Promise<ReadonlySet<string>> | undefined;

  private constructor(
    limits: PathLimits,
    roots: readonly string[] | "anywhere",
    deniedPaths: readonly string[],
    byName: boolean,
  ) {
    this.#limits = limits;
    this.#deniedPaths = deniedPaths;
    this.#roots =
      roots === "anywhere" || limits.roots === "anywhere"
        ? []
        : [...roots, ...limits.roots.map((root) => resolve(root))];
    this.#rules = new AccessRules(roots, deniedPaths);
    this.#opener = byName ? new NameOpener(this.#rules) : new HandleOpener(this.#rules);
  }

  /**
   * Creates a guard and resolves its roots. `byName`: uses the opener for systems without paths through a descriptor.
   * Default: by the capability of this system.
   */
  static async create(rules: PathLimits, { byName = !hasHandlePaths() } = {}): Promise<PathGuard> {
    const [roots, deniedPaths] = await Promise.all([
      rules.roots === "anywhere" ? ("anywhere" as const) : Promise.all(rules.roots.map(resolveRoot)),
      Promise.all(rules.deniedPaths.map(resolveDeniedPath)),
    ]);
    return new PathGuard(rules, roots, deniedPaths.flat(), byName);
  }

  /**
   * Whether a denied path lies at or below this resolved path. Also true for a root and for a folder that contains one.
   */
  containsDeniedPathOrRoot(path: string): boolean {
    return this.#rules.containsDeniedPathOrRoot(path);
  }

  /** Returns the denied paths below this resolved path, for external programs that walk the tree. */
  listDeniedPathsBelow(path: string): string[] {
    return this.#rules.listDeniedPathsBelow(path);
  }

  /** Whether a denied file has a hard link that may lie outside the denied paths. */
  async hasLinkedDeniedFiles(): Promise<boolean> {
    return (await this.#loadLinkedDeniedFiles()).size > 0;
  }

  /** Whether this resolved path is a root or contains one. */
  containsRoot(path: string): boolean {
    return this.#rules.containsRoot(path);
  }

  /** Whether a resolved path is denied. For walks, which start in a root and follow no links. */
  denies(path: string): boolean {
    return this.#rules.denies(path);
  }

  /** Resolves a path that may not exist yet. */
  async resolve(path: string): Promise<Target> {
    return this.#convertErrors(path, () => this.#opener.resolve(path));
  }

  /** Resolves a path that is to be changed or created. Rejects if any path that leads to it is protected. */
  async resolveForChange(path: string): Promise<Target> {
    const target = await this.resolve(path);
    this.refuseProtected(target.traversedPaths);
    return target;
  }

  /** Throws if one of these paths is protected. */
  refuseProtected(paths: readonly string[]): void {
    for (const path of paths) {
      const reason = this.#limits.protection?.findReason(path, this.#roots);
      if (reason !== undefined) refuseChange(reason);
    }
  }

  /**
   * Rejects if `name` in this folder must not be changed or created. The final check, made while the folder is open.
   */
  async refuseProtectedIn(folder: OpenedFolder, name: string): Promise<void> {
    this.refuseProtected([join(folder.path, name)]);
    if (!this.#limits.protection?.coversGit) return;
    // A repository may keep its Git folder under any name. These names can turn a folder into a Git folder.
    const isHooksFolder = basename(folder.path).toLowerCase() === "hooks";
    const isGitPart = /^(config|config\.worktree|hooks|head|commondir|gitdir)$/i.test(name);
    if (
      name === "HEAD" ||
      (isGitPart && (await isGitFolder(folder, ""))) ||
      (isHooksFolder && (await isGitFolder(folder, "../")))
    )
      refuseChange("git runs commands from it");
  }

  /** Opens a regular file for reading. */
  async openFile(path: string): Promise<OpenedFile> {
    return this.#refuseLinkedDenied(await this.#convertErrors(path, () => this.#opener.openFile(path)));
  }

  /** Closes the file and rejects if the file is a hard link of a denied file. */
  async #refuseLinkedDenied(file: OpenedFile): Promise<OpenedFile> {
    try {
      if (file.stats.nlink > 1n && (await this.#loadLinkedDeniedFiles()).has(`${file.stats.dev}:${file.stats.ino}`))
        throw new PathError("denied", "access is denied");
      return file;
    } catch (error) {
      await file.handle.close();
      throw asPathError(error);
    }
  }

  /** Opens a folder. `create`: also creates it and its missing parents. */
  async openFolder(path: string, options: { create?: boolean } = {}): Promise<OpenedFolder> {
    return this.#convertErrors(path, () => this.#opener.openFolder(path, options.create === true));
  }

  /**
   * Returns the target of the symbolic link at `path`. Undefined if `path` is not a link. The link is read through its
   * open folder.
   */
  async readLink(path: string): Promise<string | undefined> {
    const folder = await this.openFolder(dirname(resolve(path)));
    try {
      const name = basename(path);
      return (await folder.stat(name))?.isSymbolicLink() ? await folder.readLink(name) : undefined;
    } finally {
      await folder.close();
    }
  }

  async #convertErrors<T>(path: string, work: () => Promise<T>): Promise<T> {
    if (path.includes("\0")) throw new PathError("invalid", "the path contains a NUL character");
    try {
      return await work();
    } catch (error) {
      throw asPathError(error);
    }
  }

  /** Returns device and inode of the denied files that have more than one hard link. */
  #loadLinkedDeniedFiles(): Promise<ReadonlySet<string>> {
    return (this.#linkedDeniedFiles ??= findLinkedFiles(this.#deniedPaths));
  }
}

/** Real paths of roots at their first use in this process, by configured path. */
const realRootsByPath = new Map<string, string>();
const MAX_CACHED_ROOTS = 10_000;

/**
 * Resolves a root once per process. A link that later replaces the root or a folder above it cannot redirect the tools.
 */
async function resolveRoot(path: string): Promise<string> {
  const fullPath = resolve(path);
  const cachedRoot = realRootsByPath.get(fullPath);
  if (cachedRoot !== undefined) return cachedRoot;
  const realPath = await realpath(fullPath).catch(() => undefined);
  // A missing root keeps its configured path, which allows no other folder.
  if (realPath === undefined) return fullPath;
  const [oldestPath] = realRootsByPath.keys();
  if (realRootsByPath.size >= MAX_CACHED_ROOTS && oldestPath !== undefined) realRootsByPath.delete(oldestPath);
  realRootsByPath.set(fullPath, realPath);
  return realPath;
}

/**
 * Returns all paths that lead to a denied path: the path as configured, so that no other file can replace it, the path
 * with resolved parents, and its target.
 */
async function resolveDeniedPath(path: string): Promise<string[]> {
  const fullPath = resolve(path);
  const realPath = realPathSync(fullPath);
  // The path contains no symbolic link.
  if (realPath === fullPath) return [fullPath];
  const resolvedParentPath = join(await resolveNearest(dirname(fullPath)), basename(fullPath));
  return [...new Set([fullPath, resolvedParentPath, realPath ?? resolvedParentPath])];
}

/**
 * Resolves a path of gantry. Undefined if the path does not exist. Synchronous, because each tool call needs it and the
 * store is opened synchronously too.
 */
function realPathSync(path: string): string | undefined {
  return attempt(() => realpathSync.native(path), undefined);
}

/**
 * Resolves the existing part of a path. If nothing can be resolved, the path is returned unchanged and stays denied.
 */
async function resolveNearest(path: string): Promise<string> {
  for (
    let ancestor = path, missingNames: string[] = [];
    ;
    missingNames = [basename(ancestor), ...missingNames], ancestor = dirname(ancestor)
  ) {
    const realPath = await realpath(ancestor).catch(() => undefined);
    if (realPath !== undefined) return join(realPath, ...missingNames);
    if (dirname(ancestor) === ancestor) return path;
  }
}

async function findLinkedFiles(paths: readonly string[]): Promise<ReadonlySet<string>> {
  const fileIds = new Set<string>();
  let remainingEntries = MAX_DENIED_ENTRIES;
  const collectIds = async (path: string): Promise<void> => {
    if (remainingEntries-- <= 0) return;
    const stats = await stat(path, { bigint: true }).catch(() => undefined);
    if (stats?.isFile() && stats.nlink > 1n) fileIds.add(`${stats.dev}:${stats.ino}`);
    if (!stats?.isDirectory()) return;
    for (const name of await readdir(path).catch(() => [])) await collectIds(join(path, name));
  };
  for (const path of new Set(paths)) await collectIds(path);
  return fileIds;
}

/**
 * Whether a folder (`prefix` is `""`) or its parent (`"../"`) is a Git folder: a `.git` under another name, or a bare
 * repository.
 */
async function isGitFolder(folder: OpenedFolder, prefix: "" | "../"): Promise<boolean> {
  const exists = (name: string): Promise<boolean> =>
    lstat(folder.getSystemPath(prefix + name)).then(
      () => true,
      () => false,
    );
  return (await exists("HEAD")) && ((await exists("objects")) || (await exists("commondir")));
}
