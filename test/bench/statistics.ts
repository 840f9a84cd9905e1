// Statistics of samples: median, extremes and quantiles.

/** Summary of samples of one figure, in the unit of the samples. */
export interface Summary {
  count: number;
  median: number;
  min: number;
  max: number;
  p99: number;
}

/** The smallest sample that is at least as large as this fraction (0 to 1) of the samples; NaN without samples. */
export function quantile(samples: readonly number[], fraction: number): number {
  const sortedSamples = [...samples].sort((a, b) => a - b);
  return sortedSamples[Math.max(0, Math.ceil(fraction * sortedSamples.length) - 1)] ?? NaN;
}

/** The median; for an even number, the mean of the two middle samples. NaN without samples. */
export function median(samples: readonly number[]): number {
  const sortedSamples = [...samples].sort((a, b) => a - b);
  const middle = sortedSamples.length / 2;
  return ((sortedSamples[Math.ceil(middle) - 1] ?? NaN) + (sortedSamples[Math.floor(middle)] ?? NaN)) / 2;
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
