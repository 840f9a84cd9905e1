/** The result of `work`, or `fallback` where it throws. */
export function attempt<T, F>(work: () => T, fallback: F): T | F {
  try {
    return work();
  } catch {
    return fallback;
  }
}
