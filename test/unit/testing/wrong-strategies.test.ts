import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SlidingWindow, type Message } from "gantry";
import type { CompactionInput, CompactionStrategy } from "gantry/plugin";
import { compactionStrategyChecks } from "gantry/testing";
import { Summary } from "../../../src/compaction/summary.js";

const ours: readonly [string, () => CompactionStrategy][] = [
  ["sliding-window", () => new SlidingWindow()],
  ["summary", () => new Summary()],
];

for (const [name, make] of ours) {
  describe(`the checks of a compaction strategy: ${name}`, () => {
    for (const check of compactionStrategyChecks({ create: () => Promise.resolve(make()) })) it(check.name, check.run);
  });
}

/** A simple strategy that keeps the newest messages, with one fault each. */
const wrong = (
  compact: (input: CompactionInput, signal: AbortSignal) => unknown,
  name = "wrong",
): CompactionStrategy => ({
  name,
  compact: async (input, signal) => (await compact(input, signal)) as Message[],
});
const newest = ({ messages }: CompactionInput, count = 40) => messages.slice(-count);

const faults: readonly [string, CompactionStrategy, string][] = [
  ["has no name", wrong((input) => newest(input), ""), "name: not empty, because events contain it"],
  ["keeps all", wrong(({ messages }) => messages), "compact: gives a conversation that is smaller and not empty"],
  ["keeps nothing", wrong(() => []), "compact: gives a conversation that is smaller and not empty"],
  [
    "cuts between a call and its result",
    wrong((input) => newest(input, 2)),
    "compact: a tool call and its result stay or go together",
  ],
  [
    "gives all that stays new ids",
    wrong((input) => newest(input).map((message, i) => ({ ...message, id: `new${i}` }))),
    "compact: kept messages keep their ids and order, and no id occurs twice",
  ],
  [
    "turns the order around",
    wrong((input) => newest(input).reverse()),
    "compact: kept messages keep their ids and order, and no id occurs twice",
  ],
  ["drops what was said last", wrong((input) => newest(input).slice(0, -1)), "compact: the last message stays"],
  [
    "changes what it was given",
    wrong((input) => {
      for (const message of input.messages) message.parts = [];
      return newest(input);
    }),
    "compact: does not modify its input",
  ],
  [
    "does not hear an abort",
    wrong(() => new Promise(() => undefined)),
    "compact: settles soon after an abort, even if the model never answers",
  ],
];

describe("the checks of a compaction strategy find one that", () => {
  for (const [fault, strategy, name] of faults) {
    it(fault, async () => {
      const checks = compactionStrategyChecks({ create: () => Promise.resolve(strategy), timeoutMs: 50 });
      const check = checks.find((candidate) => candidate.name === name);
      assert.ok(check, name);
      await assert.rejects(check.run(), assert.AssertionError);
    });
  }
});
