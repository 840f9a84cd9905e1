/** Tokens and cost of one run. */
export interface RunSpending {
  /** End of the run, in ms since 1970. */
  endMs: number;
  tokens: number;
  /** In US dollars. */
  cost: number;
}

/** Sum of all runs until `endMs`, in ms since 1970. */
export interface CumulativeSpending {
  endMs: number;
  tokens: number;
  cost: number;
}

/** Cumulative sums over time, oldest first. */
export function sumRuns(runs: readonly RunSpending[]): CumulativeSpending[] {
  let [tokens, cost] = [0, 0];
  return [...runs]
    .sort((first, second) => first.endMs - second.endMs)
    .map((run) => {
      tokens += run.tokens;
      cost += run.cost;
      return { endMs: run.endMs, tokens, cost };
    });
}

/** The smallest number not below `value` that is easy to read: 1, 2 or 5 times a power of ten. */
export function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  // The tolerance accepts a value that exceeds a step only by floating-point error.
  const step = [1, 2, 5, 10].find((factor) => factor * power >= value * (1 - 1e-9)) ?? 10;
  // Removes floating-point error: 3 * 0.1 is not 0.3.
  return Number((step * power).toPrecision(12));
}

/** A position in a plot, in the units of its SVG. */
export type Point = readonly [x: number, y: number];

/** Points from x = 0 (the first total) to `width`. `top` is the value at y = 0; y increases downwards. */
export function toPoints(
  totals: readonly CumulativeSpending[],
  value: (total: CumulativeSpending) => number,
  size: { width: number; height: number; top: number },
): Point[] {
  const startMs = totals[0]?.endMs ?? 0;
  const spanMs = Math.max(1, (totals.at(-1)?.endMs ?? 0) - startMs);
  return totals.map((total): Point => {
    // A single point is at the right end, so that its step line has a level part.
    const x = totals.length === 1 ? size.width : ((total.endMs - startMs) / spanMs) * size.width;
    return [roundToHundredths(x), roundToHundredths(size.height - (value(total) / size.top) * size.height)];
  });
}

/** SVG path of a step line: level between two points, with a step up at each point. */
export function toStepPath(points: readonly Point[], size: { width: number; height: number }): string {
  const [firstPoint, ...laterPoints] = points;
  if (!firstPoint) return "";
  const steps = laterPoints.map(([x, y]) => `H${x}V${y}`);
  return `M0 ${size.height}H${firstPoint[0]}V${firstPoint[1]}${steps.join("")}H${size.width}`;
}

function roundToHundredths(value: number): number {
  return Math.round(value * 100) / 100;
}
