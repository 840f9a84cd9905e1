// What is said of many samples: the middle, the ends, and what nearly all stay under.

/** Samples of one figure, all of one unit, as they were told. */
export interface Summary {
  count: number;
  median: number;
  min: number;
  max: number;
  p99: number;
}

/** The value that so much of the samples (0 to 1) is at or under; NaN of none. */
export function quantile(samples: readonly number[], part: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? NaN;
}

/** The middle one; of an even number, the mean of the two in the middle. NaN of none. */
export function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const half = sorted.length / 2;
  return ((sorted[Math.ceil(half) - 1] ?? NaN) + (sorted[Math.floor(half)] ?? NaN)) / 2;
}

/** The mean; NaN of none. For what is counted in coarse steps, such as CPU time. */
export function mean(samples: readonly number[]): number {
  return samples.reduce((sum, sample) => sum + sample, 0) / samples.length;
}

/** What tables and JSON tell of samples. */
export function summary(samples: readonly number[]): Summary {
  return {
    count: samples.length,
    median: median(samples),
    min: Math.min(...samples),
    max: Math.max(...samples),
    p99: quantile(samples, 0.99),
  };
}
