let lastScrollMs = -Infinity;

/** Records that the user scrolls, so that purely visual work can wait. */
export function recordScroll(): void {
  lastScrollMs = performance.now();
}

/** Whether the user scrolled within the last `periodMs`. */
export function hasScrolledWithin(periodMs: number): boolean {
  return performance.now() - lastScrollMs < periodMs;
}
