// Statistics of samples: median, extremes and quantiles.

/** Summary of samples of one figure, in the unit of the samples. */
export interface Summary {
  count: number;
  median: number;
  min: number;
  max: number;
  p99: number;
}

/** The smallest sample that is not below this fraction (0 to 1) of the samples; NaN without samples. */
export function quantile(samples: readonly number[], fraction: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(fraction * sorted.length) - 1)] ?? NaN;
}

/** The median; for an even number, the mean of the two middle samples. NaN without samples. */
export function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return ((sorted[Math.ceil(middle) - 1] ?? NaN) + (sorted[Math.floor(middle)] ?? NaN)) / 2;
}

/** The mean; NaN without samples. For values measured in coarse steps, such as CPU time. */
export function mean(samples: readonly number[]): number {
  return samples.reduce((sum, sample) => sum + sample, 0) / samples.length;
}

/** Summarizes samples for tables and JSON. */
export function summarize(samples: readonly number[]): Summary {
  return {
    count: samples.length,
    median: median(samples),
    min: Math.min(...samples),
    max: Math.max(...samples),
    p99: quantile(samples, 0.99),
  };
}
