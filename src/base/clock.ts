/**
 * Milliseconds since the start of this process, on a monotonic clock. `performance` is not used, because node loads a
 * module for `performance`, which adds 1 ms to the first turn.
 */
export function monotonicMs(): number {
  return process.uptime() * 1000;
}
