import { constants, type Dirent, type Stats } from "node:fs";
import {
  access,
  lstat,
  mkdir,
  open,
  opendir,
  readdir,
  readlink,
  rename,
  rmdir,
  symlink,
  unlink,
} from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { basename, join } from "node:path";
import { PathError } from "../ports/errors.js";
import { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } from "./handles.js";
import { asPathError, codeOf } from "./names.js";

/** How a system reaches what is in an open folder, and knows where it is. */
export interface FolderAccess {
  /** A path for system calls to `name` in the folder. */
  at(name: string): string;
  /** Rejects with `PathError` unless the folder is still somewhere allowed. */
  check(): Promise<void>;
  /** A folder in it, never by a link. Rejects with `PathError` or the system's error. */
  enter(name: string): Promise<OpenedFolder>;
  close(): Promise<void>;
}

/** A tree deeper than this is not deleted, because each level is held open. */
const MAX_DEPTH = 500;
/** Entries of a folder that are read at a time. */
const ENTRIES_AT_ONCE = 256;
/** Names read at a time from a folder that is being emptied. */
const BATCH = 1_000;

/**
 * A folder held open, so that what happens in it cannot be led elsewhere by a symbolic link put in its place meanwhile.
 * Names are names of what lies directly in it; none is followed when it is a link. What changes something asks first
 * where the folder is now. All methods reject with `PathError`, unless they say otherwise.
 */
export class OpenedFolder {
  /** Without symbolic links, as it was when it was opened. */
  readonly path: string;
  readonly #access: FolderAccess;

  constructor(path: string, access: FolderAccess) {
    this.path = path;
    this.#access = access;
  }

  /** A path by which system calls reach `name` in this very folder; where the system offers none, the plain path. */
  at(name: string): string {
    return this.#access.at(name);
  }

  /** What is in it. Ends with the system's error when it cannot be read. */
  async *entries(): AsyncGenerator<Dirent> {
    const folder = await opendir(this.at("."), { bufferSize: ENTRIES_AT_ONCE });
    try {
      for (let entry = await folder.read(); entry !== null; entry = await folder.read()) {
        yield entry;
        // The rest of what was read with it is in memory, and a promise for each entry takes longer than the disk.
        for (let count = 1; count < ENTRIES_AT_ONCE; count++) {
          const next = folder.readSync();
          if (next === null) return;
          yield next;
        }
      }
    } finally {
      folder.closeSync();
    }
  }

  /** The names of all regular files in it. */
  async files(): Promise<ReadonlySet<string>> {
    const entries = await readdir(this.at("."), { withFileTypes: true }).catch(refuse);
    return new Set(entries.flatMap((entry) => (entry.isFile() ? [entry.name] : [])));
  }

  /** Undefined when there is nothing of that name. */
  async stat(name: string): Promise<Stats | undefined> {
    try {
      return await lstat(this.#own(name));
    } catch (error) {
      if (codeOf(error) === "ENOENT") return undefined;
      throw asPathError(error);
    }
  }

  /** What a link says. */
  readLink(name: string): Promise<string> {
    return readlink(this.#own(name)).catch(refuse);
  }

  /** A folder in it, never by a link. */
  async folder(name: string): Promise<OpenedFolder> {
    this.#own(name);
    return this.#access.enter(name).catch(refuse);
  }

  /** Make a folder in it, unless there is something of that name. `mode`: exactly that, whatever the umask. */
  async make(name: string, mode?: number): Promise<void> {
    await this.#access.check();
    const isMade = await mkdir(this.#own(name)).then(
      () => true,
      (error: unknown) => {
        if (codeOf(error) !== "EEXIST") throw asPathError(error);
        return false;
      },
    );
    if (!isMade || mode === undefined) return;
    const { O_RDONLY } = constants;
    const made = await open(this.#own(name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK).catch(refuse);
    try {
      await made.chmod(mode);
    } finally {
      await made.close();
    }
  }

  /** A new link; what it leads to is not looked at. */
  async link(name: string, target: string): Promise<void> {
    await this.#access.check();
    await symlink(target, this.#own(name)).catch(refuse);
  }

  /** A new file, open for writing; there must be nothing of that name. */
  async create(name: string, mode: number): Promise<FileHandle> {
    await this.#access.check();
    const { O_WRONLY, O_CREAT, O_EXCL } = constants;
    return open(this.#own(name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode).catch(refuse);
  }

  /** Rejects when this process may not write to the file. */
  async writable(name: string): Promise<void> {
    await access(this.#own(name), constants.W_OK).catch(refuse);
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#access.check();
    await rename(this.#own(from), this.#own(to)).catch(refuse);
  }

  /** Take away a file or a link. */
  async unlink(name: string): Promise<void> {
    await this.#access.check();
    await unlink(this.#own(name)).catch(refuse);
  }

  /** Take away a file that was made here, wherever the folder is by now. Never rejects. */
  async discard(name: string): Promise<void> {
    await unlink(this.#own(name)).catch(() => undefined);
  }

  /** Take away an empty folder; false when it is not empty. */
  async removeEmpty(name: string): Promise<boolean> {
    await this.#access.check();
    try {
      await rmdir(this.#own(name));
      return true;
    } catch (error) {
      if (codeOf(error) === "ENOTEMPTY" || codeOf(error) === "EEXIST") return false;
      throw asPathError(error);
    }
  }

  /** Take away a folder with all that is in it. Links in it go, and not what they lead to. */
  async removeTree(name: string, signal: AbortSignal, depth = 1): Promise<void> {
    if (depth > MAX_DEPTH)
      throw new PathError("invalid", `holds folders more than ${MAX_DEPTH} deep, which are not deleted`);
    const folder = await this.folder(name);
    try {
      for (let left = await folder.#some(); left.length > 0; left = await folder.#some()) {
        for (const entry of left) {
          signal.throwIfAborted();
          await folder.#remove(entry.name, entry.isDirectory(), signal, depth);
        }
      }
    } finally {
      await folder.close();
    }
    // What somebody put in meanwhile goes, too; not for ever, should they go on.
    if (!(await this.removeEmpty(name))) {
      if (depth > MAX_DEPTH / 2) throw new PathError("io", "something keeps filling it; try again");
      await this.removeTree(name, signal, depth + 50);
    }
  }

  /** Make renames and new names in it survive a power cut. */
  async sync(): Promise<void> {
    // Some file systems refuse to sync folders; there is nothing better to do there.
    const handle = await open(this.at("."), constants.O_RDONLY | O_NONBLOCK | O_DIRECTORY).catch(() => undefined);
    await handle?.sync().catch(() => undefined);
    await handle?.close();
  }

  close(): Promise<void> {
    return this.#access.close();
  }

  async #some(): Promise<Dirent[]> {
    const found: Dirent[] = [];
    try {
      for await (const entry of this.entries()) {
        found.push(entry);
        if (found.length === BATCH) break;
      }
    } catch (error) {
      throw asPathError(error);
    }
    return found;
  }

  /** Take away one entry, whatever it has become since it was listed. */
  async #remove(name: string, isFolder: boolean, signal: AbortSignal, depth: number): Promise<void> {
    for (let wasFolder = isFolder; ;) {
      try {
        return await (wasFolder ? this.removeTree(name, signal, depth + 1) : this.unlink(name));
      } catch (error) {
        signal.throwIfAborted();
        const now = await this.stat(name);
        if (!now) return;
        if (now.isDirectory() === wasFolder) throw error;
        wasFolder = now.isDirectory();
      }
    }
  }

  #own(name: string): string {
    if (name === "" || name === "." || name === ".." || basename(name) !== name || name.includes("\0"))
      throw new PathError("invalid", "not a name in a folder");
    return this.#access.at(name);
  }
}

/** The plain path, for systems that reach nothing by a handle. */
export function plainWay(folder: string, name: string): string {
  return join(folder, name);
}

function refuse(error: unknown): never {
  throw asPathError(error);
}

/** The folder at the end of `names` below `folder`, made where there is none; only that one stays open. */
export async function makeWay(folder: OpenedFolder, names: readonly string[]): Promise<OpenedFolder> {
  let reached = folder;
  try {
    for (const name of names) {
      await reached.make(name);
      const next = await reached.folder(name);
      await reached.close();
      reached = next;
    }
    return reached;
  } catch (error) {
    await reached.close();
    throw error;
  }
}
