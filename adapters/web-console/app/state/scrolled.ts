let last = -Infinity;

/** Records that the user scrolls, so that purely visual work can wait. */
export function scrolledNow(): void {
  last = performance.now();
}

/** Whether the user scrolled within the last `ms` milliseconds. */
export function scrolledWithin(ms: number): boolean {
  return performance.now() - last < ms;
}
