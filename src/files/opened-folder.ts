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

/** System-specific access to the entries of an open folder. */
export interface FolderAccess {
  /** Path for system calls to `name` in the folder. */
  getSystemPath(name: string): string;
  /** Rejects with `PathError` unless the folder is still at an allowed path. */
  requireAllowed(): Promise<void>;
  /** Opens a subfolder; a symbolic link is rejected. Rejects with `PathError` or the system's error. */
  enter(name: string): Promise<OpenedFolder>;
  close(): Promise<void>;
}

/** Maximum depth of a tree that is deleted. Each level keeps a descriptor open. */
const MAX_DEPTH = 500;
/** Entries of a folder per read. */
const ENTRIES_PER_READ = 256;
/** Entries per read from a folder that is being emptied. */
const ENTRIES_PER_BATCH = 1_000;
/** Levels by which each retry raises the depth, so that the retries end. */
const LEVELS_PER_RETRY = 50;

/**
 * An open folder. A symbolic link that later replaces the folder cannot redirect the operations.
 *
 * Names are those of direct children; links are not followed. Operations that change a child first check where the
 * folder is now. All methods reject with `PathError`, unless stated otherwise.
 */
export class OpenedFolder {
  /** Real path at the time of opening, without symbolic links. */
  readonly path: string;
  readonly #access: FolderAccess;

  constructor(path: string, access: FolderAccess) {
    this.path = path;
    this.#access = access;
  }

  /**
   * Path for system calls to `name` in this open folder. On systems without paths through a descriptor, the plain path.
   */
  getSystemPath(name: string): string {
    return this.#access.getSystemPath(name);
  }

  /** Yields the entries of the folder. Throws the system's error if the folder cannot be read. */
  async *entries(): AsyncGenerator<Dirent> {
    const folder = await opendir(this.getSystemPath("."), { bufferSize: ENTRIES_PER_READ });
    try {
      for (let entry = await folder.read(); entry !== null; entry = await folder.read()) {
        yield entry;
        // The other entries of this read are already in memory. A promise for each would take longer than the disk.
        for (let count = 1; count < ENTRIES_PER_READ; count++) {
          const nextEntry = folder.readSync();
          if (nextEntry === null) return;
          yield nextEntry;
        }
      }
    } finally {
      folder.closeSync();
    }
  }

  /** Returns the names of all regular files in the folder. */
  async listFileNames(): Promise<ReadonlySet<string>> {
    const entries = await readdir(this.getSystemPath("."), { withFileTypes: true }).catch(throwPathError);
    return new Set(entries.flatMap((entry) => (entry.isFile() ? [entry.name] : [])));
  }

  /** Returns the state of a child, without following a link. Undefined if the name does not exist. */
  async stat(name: string): Promise<Stats | undefined> {
    try {
      return await lstat(this.#childPath(name));
    } catch (error) {
      if (codeOf(error) === "ENOENT") return undefined;
      throw asPathError(error);
    }
  }

  /** Returns the target of a link. */
  readLink(name: string): Promise<string> {
    return readlink(this.#childPath(name)).catch(throwPathError);
  }

  /** Opens a subfolder; a symbolic link is rejected. */
  async openSubfolder(name: string): Promise<OpenedFolder> {
    this.#childPath(name);
    return this.#access.enter(name).catch(throwPathError);
  }

  /**
   * Creates a subfolder unless the name exists. `mode` is set exactly, regardless of the umask; undefined: the system's
   * default.
   */
  async createSubfolder(name: string, mode?: number): Promise<void> {
    await this.#access.requireAllowed();
    const isCreated = await mkdir(this.#childPath(name)).then(
      () => true,
      (error: unknown) => {
        if (codeOf(error) !== "EEXIST") throw asPathError(error);
        return false;
      },
    );
    if (!isCreated || mode === undefined) return;
    const { O_RDONLY } = constants;
    const createdFolder = await open(this.#childPath(name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK).catch(
      throwPathError,
    );
    try {
      await createdFolder.chmod(mode);
    } finally {
      await createdFolder.close();
    }
  }

  /** Creates a symbolic link. The target is not checked. */
  async createLink(name: string, target: string): Promise<void> {
    await this.#access.requireAllowed();
    await symlink(target, this.#childPath(name)).catch(throwPathError);
  }

  /** Creates a file and opens it for writing. Rejects if the name exists. */
  async createFile(name: string, mode: number): Promise<FileHandle> {
    await this.#access.requireAllowed();
    const { O_WRONLY, O_CREAT, O_EXCL } = constants;
    return open(this.#childPath(name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode).catch(throwPathError);
  }

  /** Rejects if this process may not write to the file. */
  async requireWritable(name: string): Promise<void> {
    await access(this.#childPath(name), constants.W_OK).catch(throwPathError);
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#access.requireAllowed();
    await rename(this.#childPath(from), this.#childPath(to)).catch(throwPathError);
  }

  /** Removes a file or a link. */
  async unlink(name: string): Promise<void> {
    await this.#access.requireAllowed();
    await unlink(this.#childPath(name)).catch(throwPathError);
  }

  /** Removes a file that this process created, without a check where the folder is now. Never rejects. */
  async discard(name: string): Promise<void> {
    await unlink(this.#childPath(name)).catch(() => undefined);
  }

  /** Removes an empty folder. Returns false if the folder is not empty. */
  async removeEmpty(name: string): Promise<boolean> {
    await this.#access.requireAllowed();
    try {
      await rmdir(this.#childPath(name));
      return true;
    } catch (error) {
      if (codeOf(error) === "ENOTEMPTY" || codeOf(error) === "EEXIST") return false;
      throw asPathError(error);
    }
  }

  /** Removes a folder with all its contents. Links inside are removed, their targets are not. */
  async removeTree(name: string, signal: AbortSignal, depth = 1): Promise<void> {
    if (depth > MAX_DEPTH)
      throw new PathError("invalid", `contains folders more than ${MAX_DEPTH} levels deep, which are not deleted`);
    const folder = await this.openSubfolder(name);
    try {
      for (let batch = await folder.#readBatch(); batch.length > 0; batch = await folder.#readBatch()) {
        for (const entry of batch) {
          signal.throwIfAborted();
          await folder.#remove(entry.name, entry.isDirectory(), signal, depth);
        }
      }
    } finally {
      await folder.close();
    }
    // Another process added entries after the listing: remove them too.
    if (!(await this.removeEmpty(name))) {
      if (depth > MAX_DEPTH / 2) throw new PathError("io", "another process keeps adding entries; try again");
      await this.removeTree(name, signal, depth + LEVELS_PER_RETRY);
    }
  }

  /** Syncs the folder, so that renames and new names survive a power failure. */
  async sync(): Promise<void> {
    // Some file systems do not support the sync of a folder; the error is ignored.
    const handle = await open(this.getSystemPath("."), constants.O_RDONLY | O_NONBLOCK | O_DIRECTORY).catch(
      () => undefined,
    );
    await handle?.sync().catch(() => undefined);
    await handle?.close();
  }

  close(): Promise<void> {
    return this.#access.close();
  }

  async #readBatch(): Promise<Dirent[]> {
    const entries: Dirent[] = [];
    try {
      for await (const entry of this.entries()) {
        entries.push(entry);
        if (entries.length === ENTRIES_PER_BATCH) break;
      }
    } catch (error) {
      throw asPathError(error);
    }
    return entries;
  }

  /** Removes one entry. Continues if the entry becomes a folder, or a folder becomes a file, after the listing. */
  async #remove(name: string, isFolder: boolean, signal: AbortSignal, depth: number): Promise<void> {
    for (let wasFolder = isFolder; ;) {
      try {
        return await (wasFolder ? this.removeTree(name, signal, depth + 1) : this.unlink(name));
      } catch (error) {
        signal.throwIfAborted();
        const currentStats = await this.stat(name);
        if (!currentStats) return;
        if (currentStats.isDirectory() === wasFolder) throw error;
        wasFolder = currentStats.isDirectory();
      }
    }
  }

  #childPath(name: string): string {
    if (name === "" || name === "." || name === ".." || basename(name) !== name || name.includes("\0"))
      throw new PathError("invalid", "not a valid file name");
    return this.#access.getSystemPath(name);
  }
}

/** Returns the plain path of a child, for systems without paths through a descriptor. */
export function joinPath(folder: string, name: string): string {
  return join(folder, name);
}

function throwPathError(error: unknown): never {
  throw asPathError(error);
}

/**
 * Opens the folder at the end of `names` below `folder` and creates missing folders. Closes `folder` and all folders in
 * between.
 */
export async function openOrCreateFolders(folder: OpenedFolder, names: readonly string[]): Promise<OpenedFolder> {
  let openFolder = folder;
  try {
    for (const name of names) {
      await openFolder.createSubfolder(name);
      const nextFolder = await openFolder.openSubfolder(name);
      await openFolder.close();
      openFolder = nextFolder;
    }
    return openFolder;
  } catch (error) {
    await openFolder.close();
    throw error;
  }
}
