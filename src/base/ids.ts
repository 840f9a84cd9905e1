import { randomFillSync } from "node:crypto";
import { closeSync, openSync, readSync } from "node:fs";
import { v7 } from "uuid";
import { nowMs, type SharedClock } from "./clock.js";

/** Random bytes fetched at once: enough for 256 identifiers, so that concurrent runs rarely read the system's source. */
const POOL_BYTES = 4_096;
const ID_BYTES = 16;

let pool = new Uint8Array(0);
/**
 * Timestamp of the newest identifier in ms, and its sequence number within that millisecond. Named as uuid's options.
 */
let msecs = 0;
let seq = 0;

/** Returns a new UUIDv7. Identifiers sort in the order in which a process created them. */
export function newId(): string {
  if (pool.length < ID_BYTES) pool = randomBytes(POOL_BYTES);
  const random = pool.subarray(0, ID_BYTES);
  pool = pool.subarray(ID_BYTES);
  const currentMs = Date.now();
  if (currentMs > msecs) {
    msecs = currentMs;
    seq = new DataView(random.buffer, random.byteOffset).getInt32(6);
  } else {
    // The clock has not advanced or went back: increment the sequence number. If it overflows, increment the timestamp.
    seq = (seq + 1) | 0;
    if (seq === 0) msecs += 1;
  }
  return v7({ random, msecs, seq });
}

/**
 * Returns cryptographically secure random bytes, read from the system's source.
 *
 * Node's crypto uses the same source but takes 3 ms to load, which would delay the start of an agent. Node's
 * crypto is the fallback if the file `source` cannot be read.
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
    // Windows, and sandboxes without this file.
  }
  return randomFillSync(bytes);
}

/** The current time in UTC, as `2026-01-31T09:15:00.123Z`. Default `clock`: that of this process. */
export function now(clock: SharedClock = {}): string {
  return new Date(nowMs(clock)).toISOString();
}

/** Like `now`, but not before `earliest`, because a clock may have been set back since then. */
export function nowNotBefore(earliest: string, clock: SharedClock): string {
  const currentTime = now(clock);
  return currentTime > earliest ? currentTime : earliest;
}
