/** Milliseconds on a clock that never goes back. For `performance`, Node would first load a module, 1 ms of a first turn. */
export function ticks(): number {
  return process.uptime() * 1000;
}
