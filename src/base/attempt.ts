/** Returns the result of `work`, or `fallback` if `work` throws. */
export function attempt<T, F>(work: () => T, fallback: F): T | F {
  try {
    return work();
  } catch {
    return fallback;
  }
}
