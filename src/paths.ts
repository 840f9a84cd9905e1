import { constants, existsSync } from "node:fs";
import type { BigIntStats } from "node:fs";
import { lstat, mkdir, open, realpath, stat } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { PathError } from "./errors.js";

/** Where files may be opened. Paths are absolute. */
export interface PathRules {
  /** Folders that hold everything allowed, or no such limit. */
  readonly roots: readonly string[] | "anywhere";
  /** Never, whatever the roots: gantry's home and its store. */
  readonly denied: readonly string[];
}

/** An open regular file, checked by what was really opened. Whoever gets it closes `handle`. */
export interface OpenedFile {
  readonly handle: FileHandle;
  /** Without symbolic links. */
  readonly path: string;
  readonly stats: BigIntStats;
}

/** Kernel interfaces that look like files: reading one can leak secrets, never end, or change the machine. */
const SYSTEM = process.platform === "win32" ? [] : ["/proc", "/sys", "/dev"];
const ATTEMPTS = 5;
// Windows knows none of these.
const { O_RDONLY } = constants;
const O_NONBLOCK = constants.O_NONBLOCK ?? 0;
const O_NOFOLLOW = constants.O_NOFOLLOW ?? 0;
const O_DIRECTORY = constants.O_DIRECTORY ?? 0;
const HAS_FD_FOLDER = process.platform === "linux" && existsSync("/proc/self/fd");

/** Whether `path` is `folder` or below it; both absolute. Compared by component: `/a/bc` is not inside `/a/b`. */
export function isInside(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way === "" || (way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way));
}

/** Resolve symbolic links of as much of `path` as exists; the rest is appended as it stands. */
async function resolveNearest(path: string): Promise<{ existing: string; rest: string[] }> {
  const rest: string[] = [];
  for (let at = resolve(path); ; at = dirname(at)) {
    try {
      return { existing: await realpath(at), rest };
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if ((code !== "ENOENT" && code !== "ENOTDIR") || dirname(at) === at) throw asPathError(error);
      rest.unshift(basename(at));
    }
  }
}

/** A failed system call in words. */
export function asPathError(error: unknown): PathError {
  if (error instanceof PathError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  const options = { cause: error };
  switch (code) {
    case "ENOENT":
    case "ENOTDIR":
      return new PathError("not_found", "not found", options);
    case "EACCES":
    case "EPERM":
      return new PathError("permission", "permission denied", options);
    case "EROFS":
      return new PathError("permission", "the file system is read-only", options);
    case "ELOOP":
      return new PathError("invalid", "too many symbolic links", options);
    case "ENAMETOOLONG":
      return new PathError("invalid", "the path is too long", options);
    case "ENOSPC":
    case "EDQUOT":
      return new PathError("io", "no space left on the disk", options);
    case "EMFILE":
    case "ENFILE":
      return new PathError("io", "too many open files", options);
    default:
      return new PathError("io", code ?? message, options);
  }
}

/** A folder held open, so that what happens in it cannot be led elsewhere by a symbolic link put in its place meanwhile. */
export class OpenedFolder {
  readonly path: string;
  readonly #handle: FileHandle;

  constructor(handle: FileHandle, path: string) {
    this.#handle = handle;
    this.path = path;
  }

  /** A path by which system calls reach `name` in this very folder; where the system offers none, the plain path. */
  at(name: string): string {
    return HAS_FD_FOLDER ? `/proc/self/fd/${this.#handle.fd}/${name}` : join(this.path, name);
  }

  /** Make renames and new names in it survive a power cut. */
  async sync(): Promise<void> {
    // Some file systems refuse to sync folders; there is nothing better to do there.
    await this.#handle.sync().catch(() => undefined);
  }

  close(): Promise<void> {
    return this.#handle.close();
  }
}

/** Opens files and folders by rules. Nothing is decided on a name alone: what was opened is resolved and checked. */
export class PathGuard {
  readonly #roots: readonly string[] | "anywhere";
  readonly #denied: readonly string[];

  private constructor(roots: readonly string[] | "anywhere", denied: readonly string[]) {
    this.#roots = roots;
    this.#denied = denied;
  }

  /** Resolve the rules' own symbolic links, once for all that is opened by this guard. */
  static async create(rules: PathRules): Promise<PathGuard> {
    const real = async (path: string): Promise<string> => {
      // One that cannot be resolved keeps its name: it lets nothing more in, and keeps what it denies out.
      const found = await resolveNearest(path).catch(() => undefined);
      return found ? join(found.existing, ...found.rest) : resolve(path);
    };
    const roots = rules.roots === "anywhere" ? "anywhere" : await Promise.all(rules.roots.map(real));
    return new PathGuard(roots, [...SYSTEM, ...(await Promise.all(rules.denied.map(real)))]);
  }

  /** Whether something denied lies at or below this resolved path. */
  holdsDenied(path: string): boolean {
    return this.#denied.some((denied) => isInside(denied, path)) || this.isRoot(path);
  }

  /** Whether this resolved path is one of the roots, or holds one. */
  isRoot(path: string): boolean {
    return this.#roots !== "anywhere" && this.#roots.some((root) => isInside(root, path));
  }

  /** Whether a resolved path is denied; for walks, which start inside and follow no links. */
  denies(path: string): boolean {
    return this.#denied.some((denied) => isInside(path, denied));
  }

  #check(path: string): void {
    if (this.denies(path)) throw new PathError("denied", "access is denied");
    if (this.#roots !== "anywhere" && !this.#roots.some((root) => isInside(path, root)))
      throw new PathError("outside", "outside the project folder");
  }

  /** The resolved form of a path that may not exist yet. Rejects with `PathError` unless the rules allow it. */
  async resolve(path: string): Promise<{ path: string; exists: boolean }> {
    if (path.includes("\0")) throw new PathError("invalid", "the path holds a NUL character");
    const { existing, rest } = await resolveNearest(path);
    const full = join(existing, ...rest);
    this.#check(full);
    return { path: full, exists: rest.length === 0 };
  }

  /** Open a regular file for reading. Rejects with `PathError`. */
  async openFile(path: string): Promise<OpenedFile> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const target = await this.resolve(path);
      if (!target.exists) throw new PathError("not_found", "not found");
      let handle: FileHandle | undefined;
      try {
        // Looked at before it is opened, because opening a device can already do something.
        const before = await lstat(target.path);
        if (!before.isFile() && !before.isSymbolicLink()) throw notRegular(before);
        handle = await open(target.path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
        const stats = await handle.stat({ bigint: true });
        if (!stats.isFile()) throw notRegular(stats);
        if (await this.#stillThere(target.path, stats)) return { handle, path: target.path, stats };
      } catch (error) {
        await handle?.close();
        handle = undefined;
        const { code } = error as NodeJS.ErrnoException;
        // Swapped between two steps: look again.
        if ((code !== "ENOENT" && code !== "ELOOP") || attempt === ATTEMPTS) throw asPathError(error);
      }
      await handle?.close();
    }
    throw new PathError("io", "it keeps being replaced while it is opened; try again");
  }

  /** Open a folder; `create` makes it and its missing parents. Rejects with `PathError`. */
  async openFolder(path: string, options: { create?: boolean } = {}): Promise<OpenedFolder> {
    if (path.includes("\0")) throw new PathError("invalid", "the path holds a NUL character");
    const { existing, rest } = await resolveNearest(path);
    this.#check(join(existing, ...rest));
    if (rest.length > 0 && options.create !== true) throw new PathError("not_found", "not found");
    let folder: OpenedFolder | undefined;
    try {
      folder = await this.#enter(existing, existing);
      for (const name of rest) {
        await mkdir(folder.at(name)).catch((error: NodeJS.ErrnoException) => {
          if (error.code !== "EEXIST") throw error;
        });
        const next: OpenedFolder = await this.#enter(folder.at(name), join(folder.path, name));
        await folder.close();
        folder = next;
      }
      return folder;
    } catch (error) {
      await folder?.close();
      if ((error as NodeJS.ErrnoException).code === "ENOTDIR") throw new PathError("invalid", "not a folder");
      throw asPathError(error);
    }
  }

  /** Open a folder by `way`, which must turn out to be `path`. */
  async #enter(way: string, path: string): Promise<OpenedFolder> {
    const handle = await open(way, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_DIRECTORY);
    try {
      const stats = await handle.stat({ bigint: true });
      if (!stats.isDirectory()) throw new PathError("invalid", "not a folder");
      if (!(await this.#stillThere(path, stats))) throw new PathError("io", "it was replaced meanwhile; try again");
      return new OpenedFolder(handle, path);
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Whether what is open is what an allowed path leads to; then it does not matter what the names meant a moment ago. */
  async #stillThere(path: string, opened: BigIntStats): Promise<boolean> {
    const real = await realpath(path);
    this.#check(real);
    const now = await stat(real, { bigint: true });
    return now.dev === opened.dev && now.ino === opened.ino;
  }
}

function notRegular(stats: { isDirectory(): boolean; isFIFO(): boolean; isSocket(): boolean }): PathError {
  if (stats.isDirectory()) return new PathError("folder", "is a folder");
  const what = stats.isFIFO() ? "a named pipe" : stats.isSocket() ? "a socket" : "a device";
  return new PathError("not_regular", `not a regular file (${what})`);
}
