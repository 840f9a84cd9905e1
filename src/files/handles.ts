import { closeSync, constants, fstatSync, open as openFile, openSync, readlinkSync, type BigIntStats } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";

// Windows knows none of these.
export const O_NONBLOCK = constants.O_NONBLOCK ?? 0;
export const O_NOFOLLOW = constants.O_NOFOLLOW ?? 0;
export const O_DIRECTORY = constants.O_DIRECTORY ?? 0;
/** Linux: a handle on the name alone. Nothing is read and no device or pipe notices. Node has no word for it. */
const O_PATH = 0o10000000;

let probed: boolean | undefined;

/** Whether this system can go from handle to handle: Linux with /proc. Tried once a process. */
export function hasHandleWays(): boolean {
  return (probed ??= probe());
}

function probe(): boolean {
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

/** A handle on a name alone. Whoever gets it closes it; safe to do twice. */
export class NameHandle {
  #number: number;

  private constructor(number: number) {
    this.#number = number;
  }

  /** Rejects with the system's error. */
  static open(way: string): Promise<NameHandle> {
    return new Promise((resolve, reject) =>
      openFile(way, O_PATH | O_NOFOLLOW, (error, number) => (error ? reject(error) : resolve(new NameHandle(number)))),
    );
  }

  get fd(): number {
    return this.#number;
  }

  /** Synchronous: the open has just loaded what it returns, and a way to a thread and back takes longer. */
  stat(): BigIntStats {
    return fstatSync(this.#number, { bigint: true });
  }

  /** At once: nothing was read by it, so that no disk is asked, and a way to a thread and back takes longer. */
  close(): void {
    if (this.#number !== -1) closeSync(this.#number);
    this.#number = -1;
  }
}

/** A way by which system calls reach what a handle holds, whatever its name means by now. */
export function wayTo(handle: NameHandle, name?: string): string {
  return name === undefined ? `/proc/self/fd/${handle.fd}` : `/proc/self/fd/${handle.fd}/${name}`;
}

/**
 * Where what a handle holds is now, without symbolic links: the kernel's own word. At once: it knows that without a disk,
 * and a way to a thread and back takes longer.
 */
export function placeOf(handle: NameHandle): string {
  return readlinkSync(wayTo(handle));
}

/** What a name is, held; a symbolic link is held itself. */
export interface Held {
  readonly handle: NameHandle;
  readonly stats: BigIntStats;
}

/** Rejects with the system's error. */
export async function hold(way: string): Promise<Held> {
  const handle = await NameHandle.open(way);
  try {
    return { handle, stats: handle.stat() };
  } catch (error) {
    handle.close();
    throw error;
  }
}

/** Open for reading the very file that is held, and no other. */
export function openHeld(handle: NameHandle): Promise<FileHandle> {
  return open(wayTo(handle), constants.O_RDONLY | O_NONBLOCK);
}
