import { closeSync, constants, openSync, readlinkSync } from "node:fs";
import type { BigIntStats } from "node:fs";
import { open } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";

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

/** A way by which system calls reach what a handle holds, whatever its name means by now. */
export function wayTo(handle: FileHandle, name?: string): string {
  return name === undefined ? `/proc/self/fd/${handle.fd}` : `/proc/self/fd/${handle.fd}/${name}`;
}

/**
 * Where what a handle holds is now, without symbolic links: the kernel's own word. At once: it knows that without a disk,
 * and a way to a thread and back takes longer.
 */
export function placeOf(handle: FileHandle): string {
  return readlinkSync(wayTo(handle));
}

/** What a name is, held; a symbolic link is held itself. */
export interface Held {
  readonly handle: FileHandle;
  readonly stats: BigIntStats;
}

/** Rejects with the system's error. */
export async function hold(way: string): Promise<Held> {
  const handle = await open(way, O_PATH | O_NOFOLLOW);
  try {
    return { handle, stats: await handle.stat({ bigint: true }) };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Open for reading the very file that is held, and no other. */
export function openHeld(handle: FileHandle): Promise<FileHandle> {
  return open(wayTo(handle), constants.O_RDONLY | O_NONBLOCK);
}
