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
  describe(`the compaction strategy kit on ${name}`, () => {
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
  [
    "keeps all messages",
    wrong(({ messages }) => messages),
    "compact: gives a conversation that is smaller and not empty",
  ],
  ["keeps no message", wrong(() => []), "compact: gives a conversation that is smaller and not empty"],
  [
    "separates a tool call from its result",
    wrong((input) => newest(input, 2)),
    "compact: a tool call and its result are kept or removed together",
  ],
  [
    "gives new ids to kept messages",
    wrong((input) => newest(input).map((message, i) => ({ ...message, id: `new${i}` }))),
    "compact: kept messages keep their ids and order, and no id occurs twice",
  ],
  [
    "reverses the order",
    wrong((input) => newest(input).reverse()),
    "compact: kept messages keep their ids and order, and no id occurs twice",
  ],
  ["drops the last message", wrong((input) => newest(input).slice(0, -1)), "compact: keeps the last message"],
  [
    "modifies its input",
    wrong((input) => {
      for (const message of input.messages) message.parts = [];
      return newest(input);
    }),
    "compact: does not modify its input",
  ],
  [
    "ignores an abort",
    wrong(() => new Promise(() => undefined)),
    "compact: settles soon after an abort, even if the model never answers",
  ],
];

describe("the compaction strategy kit", () => {
  for (const [fault, strategy, name] of faults) {
    it(`catches a strategy that ${fault}`, async () => {
      const checks = compactionStrategyChecks({ create: () => Promise.resolve(strategy), timeoutMs: 50 });
      const check = checks.find((candidate) => candidate.name === name);
      assert.ok(check, name);
      await assert.rejects(check.run(), assert.AssertionError);
    });
  }
});
