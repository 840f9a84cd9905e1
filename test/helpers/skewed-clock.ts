import { fileURLToPath } from "node:url";

/** Environment of a process whose clock is ahead of that of this process by `offsetMs`. */
export function skewedClock(offsetMs: number): Record<string, string> {
  const module = new URL("skewed-clock.mjs", import.meta.url);
  return { NODE_OPTIONS: `--import=${fileURLToPath(module)}`, CLOCK_OFFSET_MS: String(offsetMs) };
}
