import { randomFillSync } from "node:crypto";
import { closeSync, openSync, readSync } from "node:fs";
import { v7 } from "uuid";

/** Enough for 16 identifiers. */
const AT_ONCE = 256;
const EACH = 16;

let pool = new Uint8Array(0);
/** Of the newest identifier: its milliseconds, and its number among those of the same one. */
let msecs = 0;
let seq = 0;

/** A new identifier: UUIDv7, so that identifiers sort in the order in which a process made them. */
export function newId(): string {
  if (pool.length < EACH) pool = randomBytes(AT_ONCE);
  const random = pool.subarray(0, EACH);
  pool = pool.subarray(EACH);
  const time = Date.now();
  if (time > msecs) {
    msecs = time;
    seq = new DataView(random.buffer, random.byteOffset).getInt32(6);
  } else {
    // The clock stands, or went back: the number goes on, and the time with it where it is used up.
    seq = (seq + 1) | 0;
    if (seq === 0) msecs += 1;
  }
  return v7({ random, msecs, seq });
}

/**
 * Bytes that nobody can guess, of the system's own source: Node's crypto asks the same, and takes 3 ms to be loaded, for
 * which whoever starts an agent would wait. Where there is no such file, it is asked.
 */
export function randomBytes(count: number, source = "/dev/urandom"): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(count);
  try {
    const file = openSync(source, "r");
    try {
      if (readSync(file, bytes) === count) return bytes;
    } finally {
      closeSync(file);
    }
  } catch {
    // Windows, and folders that a process is locked into.
  }
  return randomFillSync(bytes);
}

/** Now, as `2026-01-31T09:15:00.123Z`. */
export function now(): string {
  return new Date().toISOString();
}
