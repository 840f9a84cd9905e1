/**
 * Milliseconds on a monotonic clock. `performance` is not used: Node first loads a module for it, which adds 1 ms to
 * the first turn.
 */
export function monotonicMs(): number {
  return process.uptime() * 1000;
}
