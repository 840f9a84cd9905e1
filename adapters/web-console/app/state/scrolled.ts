let last = -Infinity;

/** Somebody scrolls: what is for the eye alone can wait. */
export function scrolledNow(): void {
  last = performance.now();
}

/** Whether somebody scrolled in the last `ms`. */
export function scrolledWithin(ms: number): boolean {
  return performance.now() - last < ms;
}
