/**
 * Milliseconds since the start of this process, on a monotonic clock. `performance` is not used, because node loads a
 * module for `performance`, which adds 1 ms to the first turn.
 */
export function monotonicMs(): number {
  return process.uptime() * 1000;
}

/** A clock that processes share. Its time is `Date.now()` plus the offset. Default offset: 0. */
export interface SharedClock {
  readonly clockOffsetMs?: number;
}

/** Milliseconds since 1970 by a shared clock. */
export function nowMs({ clockOffsetMs = 0 }: SharedClock): number {
  return Date.now() + clockOffsetMs;
}
