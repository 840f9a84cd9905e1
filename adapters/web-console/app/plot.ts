/** What a run took. */
export interface Spent {
  /** Milliseconds since 1970. */
  at: number;
  tokens: number;
  /** USD. */
  cost: number;
}

/** How much it was by then. */
export interface Total {
  at: number;
  tokens: number;
  cost: number;
}

/** Sums over time, oldest first. */
export function totalsOf(spent: readonly Spent[]): Total[] {
  let [tokens, cost] = [0, 0];
  return [...spent]
    .sort((one, other) => one.at - other.at)
    .map((one) => {
      tokens += one.tokens;
      cost += one.cost;
      return { at: one.at, tokens, cost };
    });
}

/** A number at or above `value` that is easy to read: 1, 2 or 5 times a power of ten. */
export function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find((one) => one * power >= value * (1 - 1e-9)) ?? 10;
  // 3 * 0.1 is no 0.3.
  return Number((step * power).toPrecision(12));
}

/** A place of a plot, in its own units. */
export type Point = readonly [x: number, y: number];

/** Points from 0, 0 (the first one's left, the bottom) to `width` and the height of `top`; y grows downwards. */
export function pointsOf(
  totals: readonly Total[],
  value: (total: Total) => number,
  size: { width: number; height: number; top: number },
): Point[] {
  const from = totals[0]?.at ?? 0;
  const span = Math.max(1, (totals.at(-1)?.at ?? 0) - from);
  return totals.map((total): Point => {
    // One alone is at the end: what was spent was spent by then.
    const x = totals.length === 1 ? size.width : ((total.at - from) / span) * size.width;
    return [round(x), round(size.height - (value(total) / size.top) * size.height)];
  });
}

/** A line that stays as it is until more is spent. */
export function stepsOf(points: readonly Point[], size: { width: number; height: number }): string {
  const [first, ...rest] = points;
  if (!first) return "";
  const steps = rest.map(([x, y]) => `H${x}V${y}`);
  return `M0 ${size.height}H${first[0]}V${first[1]}${steps.join("")}H${size.width}`;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
