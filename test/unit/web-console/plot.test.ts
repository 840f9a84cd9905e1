import assert from "node:assert/strict";
import { it } from "node:test";
import { pointsOf, roundUp, stepsOf, totalsOf } from "../../../adapters/web-console/app/plot.js";

const size = { width: 300, height: 100, top: 50 };

it("totalsOf sorts runs by time and sums their tokens and costs", () => {
  assert.deepEqual(
    totalsOf([
      { at: 30, tokens: 5, cost: 0.5 },
      { at: 10, tokens: 10, cost: 0.25 },
    ]),
    [
      { at: 10, tokens: 10, cost: 0.25 },
      { at: 30, tokens: 15, cost: 0.75 },
    ],
  );
});

it("stepsOf draws steps between the points, and pointsOf puts a single run at the right edge", () => {
  const totals = totalsOf([
    { at: 0, tokens: 10, cost: 0 },
    { at: 50, tokens: 15, cost: 0 },
    { at: 100, tokens: 25, cost: 0 },
  ]);
  const points = pointsOf(totals, ({ tokens }) => tokens, size);
  assert.deepEqual(points, [
    [0, 80],
    [150, 50],
    [300, 0],
  ]);
  assert.equal(stepsOf(points, size), "M0 100H0V80H150V50H300V0H300");
  assert.deepEqual(
    pointsOf(totals.slice(0, 1), ({ tokens }) => tokens, size),
    [[300, 80]],
  );
  assert.equal(stepsOf([], size), "");
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
  for (const [value, top] of cases) assert.equal(roundUp(value), top);
});
