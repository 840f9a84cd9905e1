import assert from "node:assert/strict";
import { it } from "node:test";
import { toPoints, roundUp, toStepPath, sumRuns } from "../../../adapters/web-console/app/usage-chart.js";

const chartSize = { width: 300, height: 100, top: 50 };

it("sumRuns sorts runs by time and sums their tokens and costs", () => {
  assert.deepEqual(
    sumRuns([
      { endMs: 30, tokens: 5, cost: 0.5 },
      { endMs: 10, tokens: 10, cost: 0.25 },
    ]),
    [
      { endMs: 10, tokens: 10, cost: 0.25 },
      { endMs: 30, tokens: 15, cost: 0.75 },
    ],
  );
});

it("toStepPath draws steps between the points, and toPoints puts a single run at the right edge", () => {
  const totals = sumRuns([
    { endMs: 0, tokens: 10, cost: 0 },
    { endMs: 50, tokens: 15, cost: 0 },
    { endMs: 100, tokens: 25, cost: 0 },
  ]);
  const points = toPoints(totals, ({ tokens }) => tokens, chartSize);
  assert.deepEqual(points, [
    [0, 80],
    [150, 50],
    [300, 0],
  ]);
  assert.equal(toStepPath(points, chartSize), "M0 100H0V80H150V50H300V0H300");
  assert.deepEqual(
    toPoints(totals.slice(0, 1), ({ tokens }) => tokens, chartSize),
    [[300, 80]],
  );
  assert.equal(toStepPath([], chartSize), "");
});

it("roundUp returns the next 1, 2 or 5 times a power of ten", () => {
  const cases = [
    [0, 1],
    [1, 1],
    [1.01, 2],
    [37, 50],
    [50, 50],
    [51, 100],
    [0.03, 0.05],
    [0.2, 0.2],
    [123_456, 200_000],
  ] as const;
  for (const [value, expectedValue] of cases) assert.equal(roundUp(value), expectedValue);
});
