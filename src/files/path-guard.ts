import { realpathSync } from "node:fs";
import { lstat, readdir, realpath, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { attempt } from "../base/attempt.js";
import { PathError } from "../ports/errors.js";
import { ByHandle } from "./by-handle.js";
import { ByName } from "./by-name.js";
import { hasHandleWays } from "./handles.js";
import { asPathError, isInside } from "./names.js";
import type { OpenedFolder } from "./opened-folder.js";
import type { OpenedFile } from "./opened-file.js";
import type { Opener, Target } from "./opener.js";
import { refuseChange, type Protection } from "./protection.js";
import { Rules } from "./rules.js";

export { asPathError, isInside };
export { OpenedFolder } from "./opened-folder.js";
export type { OpenedFile } from "./opened-file.js";
export type { Target } from "./opener.js";

/** Where files may be opened. Paths are absolute. */
export interface PathRules {
  /** Folders that hold everything allowed, or no such limit. */
  readonly roots: readonly string[] | "anywhere";
  /** Never, whatever the roots: gantry's home, its store and its config. */
  readonly denied: readonly string[];
  /** What may be read and not changed; default nothing. */
  readonly protection?: Protection;
}

/** Entries of gantry's own folders that are looked at to know a hard link of one. */
const MAX_OWN_FILES = 10_000;

/**
 * The one place that opens a path of a project. Nothing is decided on a name: what was opened is asked where it is, and
 * what changes something works in a folder that is held open. All methods reject with `PathError`.
 */
export class PathGuard {
  readonly #rules: Rules;
  readonly #opener: Opener;
  readonly #given: PathRules;
  /** As they were given and as they really are. */
  readonly #roots: readonly string[];
  readonly #denied: readonly string[];
  #own: Promise<ReadonlySet<string>> | undefined;

  private constructor(
    given: PathRules,
    roots: readonly string[] | "anywhere",
    denied: readonly string[],
    name: boolean,
  ) {
    this.#given = given;
    this.#denied = denied;
    this.#roots =
      roots === "anywhere" || given.roots === "anywhere" ? [] : [...roots, ...given.roots.map((one) => resolve(one))];
    this.#rules = new Rules(roots, denied);
    this.#opener = name ? new ByName(this.#rules) : new ByHandle(this.#rules);
  }

  /** `byName`: as systems do that reach nothing by a handle. */
  static async create(rules: PathRules, { byName = !hasHandleWays() } = {}): Promise<PathGuard> {
    const [roots, denied] = await Promise.all([
      rules.roots === "anywhere" ? ("anywhere" as const) : Promise.all(rules.roots.map(realRoot)),
      Promise.all(rules.denied.map(realNames)),
    ]);
    return new PathGuard(rules, roots, denied.flat(), byName);
  }

  /** Whether something denied lies at or below this resolved path. */
  holdsDenied(path: string): boolean {
    return this.#rules.holdsDenied(path);
  }

  /** The denied paths below this resolved one, for programs that walk there themselves. */
  deniedBelow(path: string): string[] {
    return this.#rules.deniedBelow(path);
  }

  /** Whether a file outside of the denied paths can be another name of one in them. */
  async hasLinkedNames(): Promise<boolean> {
    return (await this.#ownFiles()).size > 0;
  }

  /** Whether this resolved path is one of the roots, or holds one. */
  isRoot(path: string): boolean {
    return this.#rules.isRoot(path);
  }

  /** Whether a resolved path is denied; for walks, which start inside and follow no links. */
  denies(path: string): boolean {
    return this.#rules.denies(path);
  }

  /** The resolved form of a path that may not exist yet. */
  async resolve(path: string): Promise<Target> {
    return this.#try(path, () => this.#opener.resolve(path));
  }

  /** As `resolve`, for what is to be changed or made: rejects for what is protected, by whatever way it is reached. */
  async resolveForChange(path: string): Promise<Target> {
    const target = await this.resolve(path);
    this.refuseProtected(target.ways);
    return target;
  }

  /** Throws when one of these paths may be read and not changed. */
  refuseProtected(paths: readonly string[]): void {
    for (const path of paths) {
      const why = this.#given.protection?.why(path, this.#roots);
      if (why !== undefined) refuseChange(why);
    }
  }

  /** Rejects when `name` in this folder may not be changed or made: asked with the folder held, as the last word. */
  async refuseProtectedIn(folder: OpenedFolder, name: string): Promise<void> {
    this.refuseProtected([join(folder.path, name)]);
    if (!this.#given.protection?.coversGit) return;
    // A repository may have its folder under any name, and a folder becomes one by these.
    const isHook = basename(folder.path).toLowerCase() === "hooks";
    const isPart = /^(config|config\.worktree|hooks|head|commondir|gitdir)$/i.test(name);
    if (name === "HEAD" || (isPart && (await isGit(folder, ""))) || (isHook && (await isGit(folder, "../"))))
      refuseChange("git runs what it says");
  }

  /** Open a regular file for reading. */
  async openFile(path: string): Promise<OpenedFile> {
    return this.#refuseOwn(await this.#try(path, () => this.#opener.openFile(path)));
  }

  /** Refuses a file that is a denied one by another name. */
  async #refuseOwn(file: OpenedFile): Promise<OpenedFile> {
    try {
      if (file.stats.nlink > 1n && (await this.#ownFiles()).has(`${file.stats.dev}:${file.stats.ino}`))
        throw new PathError("denied", "access is denied");
      return file;
    } catch (error) {
      await file.handle.close();
      throw asPathError(error);
    }
  }

  /** Open a folder; `create` makes it and its missing parents. */
  async openFolder(path: string, options: { create?: boolean } = {}): Promise<OpenedFolder> {
    return this.#try(path, () => this.#opener.openFolder(path, options.create === true));
  }

  /** What is in the symbolic link at `path`; undefined when it is none. Its folder is opened, and then the link is read. */
  async readLink(path: string): Promise<string | undefined> {
    const folder = await this.openFolder(dirname(resolve(path)));
    try {
      const name = basename(path);
      return (await folder.stat(name))?.isSymbolicLink() ? await folder.readLink(name) : undefined;
    } finally {
      await folder.close();
    }
  }

  async #try<T>(path: string, work: () => Promise<T>): Promise<T> {
    if (path.includes("\0")) throw new PathError("invalid", "the path holds a NUL character");
    try {
      return await work();
    } catch (error) {
      throw asPathError(error);
    }
  }

  /** Device and inode of the denied files that have a second name somewhere. */
  #ownFiles(): Promise<ReadonlySet<string>> {
    return (this.#own ??= filesWithNames(this.#denied));
  }
}

/** Where roots were when this process first used them, by the name they were given. */
const knownRoots = new Map<string, string>();
const MAX_ROOTS = 10_000;

/**
 * A root's real place, decided once a process: should a link take its place later, or the place of a folder above it,
 * it does not lead the tools anywhere else.
 */
async function realRoot(path: string): Promise<string> {
  const full = resolve(path);
  const known = knownRoots.get(full);
  if (known !== undefined) return known;
  const real = await realpath(full).catch(() => undefined);
  // One that does not exist keeps its name: it lets nothing more in.
  if (real === undefined) return full;
  const [oldest] = knownRoots.keys();
  if (knownRoots.size >= MAX_ROOTS && oldest !== undefined) knownRoots.delete(oldest);
  knownRoots.set(full, real);
  return real;
}

/** The names of something denied: as it was given, for who would put another in its place, and what it leads to. */
async function realNames(path: string): Promise<string[]> {
  const full = resolve(path);
  const real = ownRealPath(full);
  // No link is on its way.
  if (real === full) return [full];
  const own = join(await nearest(dirname(full)), basename(full));
  return [...new Set([full, own, real ?? own])];
}

/** Of our own files; undefined where there is nothing. At once: each call of a tool asks, and the store beside them is opened so too. */
function ownRealPath(path: string): string | undefined {
  return attempt(() => realpathSync.native(path), undefined);
}

/** Resolved as far as it exists; what cannot be resolved keeps its name, and keeps what it denies out. */
async function nearest(path: string): Promise<string> {
  for (let at = path, rest: string[] = []; ; rest = [basename(at), ...rest], at = dirname(at)) {
    const real = await realpath(at).catch(() => undefined);
    if (real !== undefined) return join(real, ...rest);
    if (dirname(at) === at) return path;
  }
}

async function filesWithNames(paths: readonly string[]): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  let left = MAX_OWN_FILES;
  const look = async (path: string): Promise<void> => {
    if (left-- <= 0) return;
    const stats = await stat(path, { bigint: true }).catch(() => undefined);
    if (stats?.isFile() && stats.nlink > 1n) found.add(`${stats.dev}:${stats.ino}`);
    if (!stats?.isDirectory()) return;
    for (const name of await readdir(path).catch(() => [])) await look(join(path, name));
  };
  for (const path of new Set(paths)) await look(path);
  return found;
}

/** Whether a folder, or the one above it, is a repository's own: `.git` under another name, or a bare one. */
async function isGit(folder: OpenedFolder, above: "" | "../"): Promise<boolean> {
  const has = (name: string): Promise<boolean> =>
    lstat(folder.at(above + name)).then(
      () => true,
      () => false,
    );
  return (await has("HEAD")) && ((await has("objects")) || (await has("commondir")));
}
