import { readFileSync, statSync } from "node:fs";

/** Byte of the shared-memory file that a writer locks (https://www.sqlite.org/walformat.html, WAL_WRITE_LOCK). */
const WRITE_LOCK_BYTE = 120;
/** A line of /proc/locks: process, inode, first and last byte of a lock for writing. */
const LOCK_PATTERN = /^\d+: POSIX +\S+ +WRITE (\d+) [\da-f]+:[\da-f]+:(\d+) (\d+) (\d+|EOF)$/gm;

/** The process that holds the write lock of a store. */
export interface LockHolder {
  readonly pid: number;
  /** Whether the process was suspended, by Ctrl+Z for instance. */
  readonly isStopped: boolean;
}

/**
 * Finds the process that holds the write lock of a database with a write-ahead log. Undefined if the lock is free, if
 * the process runs in another container, and on systems other than Linux.
 */
export function findLockHolder(path: string): LockHolder | undefined {
  try {
    const inode = String(statSync(`${path}-shm`, { bigint: true }).ino);
    for (const [, pid, lockedInode, start, end] of readFileSync("/proc/locks", "utf8").matchAll(LOCK_PATTERN))
      if (lockedInode === inode && Number(start) <= WRITE_LOCK_BYTE && Number(end) >= WRITE_LOCK_BYTE)
        return { pid: Number(pid), isStopped: isStopped(Number(pid)) };
  } catch {
    // Another system, or the database is closed.
  }
  return undefined;
}

/** Describes the process that blocks the store, for people. */
export function describeHolder(holder: LockHolder | undefined): string {
  if (!holder) return "another process";
  return `the process ${holder.pid}${holder.isStopped ? ", which is stopped" : ""}`;
}

function isStopped(pid: number): boolean {
  try {
    return /^[Tt] /.test(readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /s, ""));
  } catch {
    return false;
  }
}
