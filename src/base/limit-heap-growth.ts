/**
 * Keep the heap of a process small that has one person's work to do: V8 would let what is young grow to 32 MB, and what is
 * old to four times of what is alive, which makes only a server of many runs at once faster. Takes effect from now on.
 */
export function staySmall(): void {
  const { setFlagsFromString } = process.getBuiltinModule("node:v8");
  setFlagsFromString("--semi-space-growth-factor=1");
  setFlagsFromString("--heap-growing-percent=50");
}
