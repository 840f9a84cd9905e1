import { closeSync, constants, fstatSync, open as openFile, openSync, readlinkSync, type BigIntStats } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";

// Windows defines none of these flags.
export const O_NONBLOCK = constants.O_NONBLOCK ?? 0;
export const O_NOFOLLOW = constants.O_NOFOLLOW ?? 0;
export const O_DIRECTORY = constants.O_DIRECTORY ?? 0;
/**
 * Linux flag: opens a descriptor for the name only. No data is read, and devices and pipes do not notice. Node does not
 * define this constant.
 */
const O_PATH = 0o10000000;

let handlePathSupport: boolean | undefined;

/**
 * Whether this system can walk from descriptor to descriptor: Linux with /proc. The result is cached for the process.
 */
export function hasHandlePaths(): boolean {
  return (handlePathSupport ??= probeHandlePaths());
}

function probeHandlePaths(): boolean {
  if (process.platform !== "linux") return false;
  try {
    const fd = openSync("/", O_PATH | O_DIRECTORY);
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === "/";
    } finally {
      closeSync(fd);
    }
  } catch {
    return false;
  }
}

/** A descriptor for a name only (`O_PATH`). The caller must close it; closing twice is safe. */
export class NameHandle {
  #fd: number;

  private constructor(fd: number) {
    this.#fd = fd;
  }

  /** Opens `path` without following a symbolic link at its end. Rejects with the system's error. */
  static open(path: string): Promise<NameHandle> {
    return new Promise((resolve, reject) =>
      openFile(path, O_PATH | O_NOFOLLOW, (error, fd) => (error ? reject(error) : resolve(new NameHandle(fd)))),
    );
  }

  /** The file descriptor; -1 after `close`. */
  get fd(): number {
    return this.#fd;
  }

  /** Synchronous: the open call has just loaded the inode, and a round trip to the thread pool takes longer. */
  stat(): BigIntStats {
    return fstatSync(this.#fd, { bigint: true });
  }

  /**
   * Synchronous: no data was read, so that closing needs no disk access. A round trip to the thread pool takes longer.
   */
  close(): void {
    if (this.#fd !== -1) closeSync(this.#fd);
    this.#fd = -1;
  }
}

/**
 * Path for system calls to the pinned file, or to `name` in the pinned folder. Stays valid if the original name changes
 * its meaning.
 */
export function procPath(handle: NameHandle, name?: string): string {
  return name === undefined ? `/proc/self/fd/${handle.fd}` : `/proc/self/fd/${handle.fd}/${name}`;
}

/**
 * Current real path of the pinned file, from the kernel. Synchronous: the kernel needs no disk access for it, and a
 * round trip to the thread pool takes longer.
 */
export function realPathOf(handle: NameHandle): string {
  return readlinkSync(procPath(handle));
}

/**
 * A file, folder or link that a handle keeps open, and its state. If the name is a symbolic link, the link itself is
 * open.
 */
export interface PinnedFile {
  readonly handle: NameHandle;
  readonly stats: BigIntStats;
}

/** Pins `path`. Rejects with the system's error. */
export async function pinFile(path: string): Promise<PinnedFile> {
  const handle = await NameHandle.open(path);
  try {
    return { handle, stats: handle.stat() };
  } catch (error) {
    handle.close();
    throw error;
  }
}

/** Opens the pinned file for reading. */
export function openPinnedFile(handle: NameHandle): Promise<FileHandle> {
  return open(procPath(handle), constants.O_RDONLY | O_NONBLOCK);
}
