import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SlidingWindow, type Message } from "gantry";
import type { CompactionInput, CompactionStrategy } from "gantry/plugin";
import { compactionStrategyChecks } from "gantry/testing";
import { Summary } from "../../../src/compaction/summary.js";

const builtInStrategies: readonly [string, () => CompactionStrategy][] = [
  ["sliding-window", () => new SlidingWindow()],
  ["summary", () => new Summary()],
];

for (const [name, createStrategy] of builtInStrategies) {
  describe(`the compaction strategy checks on ${name}`, () => {
    for (const check of compactionStrategyChecks({ create: () => Promise.resolve(createStrategy()) }))
      it(check.name, check.run);
  });
}

/** Returns a strategy with the given compact function, which has one fault. */
const createFaultyStrategy = (
  compact: (input: CompactionInput, signal: AbortSignal) => unknown,
  name = "wrong",
): CompactionStrategy => ({
  name,
  compact: async (input, signal) => (await compact(input, signal)) as Message[],
});
const takeNewest = ({ messages }: CompactionInput, count = 40) => messages.slice(-count);

const faults: readonly [fault: string, strategy: CompactionStrategy, checkName: string][] = [
  ["has no name", createFaultyStrategy((input) => takeNewest(input), ""), "name: not empty, because events contain it"],
  [
    "keeps all messages",
    createFaultyStrategy(({ messages }) => messages),
    "compact: gives a conversation that is smaller and not empty",
  ],
  ["keeps no message", createFaultyStrategy(() => []), "compact: gives a conversation that is smaller and not empty"],
  [
    "separates a tool call from its result",
    createFaultyStrategy((input) => takeNewest(input, 2)),
    "compact: a tool call and its result are kept or removed together",
  ],
  [
    "gives new ids to kept messages",
    createFaultyStrategy((input) => takeNewest(input).map((message, i) => ({ ...message, id: `new${i}` }))),
    "compact: kept messages keep their ids and order, and no id occurs twice",
  ],
  [
    "reverses the order",
    createFaultyStrategy((input) => takeNewest(input).reverse()),
    "compact: kept messages keep their ids and order, and no id occurs twice",
  ],
  [
    "drops the last message",
    createFaultyStrategy((input) => takeNewest(input).slice(0, -1)),
    "compact: keeps the last message",
  ],
  [
    "modifies its input",
    createFaultyStrategy((input) => {
      for (const message of input.messages) message.parts = [];
      return takeNewest(input);
    }),
    "compact: does not modify its input",
  ],
  [
    "ignores an abort",
    createFaultyStrategy(() => new Promise(() => undefined)),
    "compact: settles soon after an abort, even if the model never answers",
  ],
];

describe("the compaction strategy checks", () => {
  for (const [fault, strategy, checkName] of faults) {
    it(`catches a strategy that ${fault}`, async () => {
      const checks = compactionStrategyChecks({ create: () => Promise.resolve(strategy), timeoutMs: 50 });
      const check = checks.find((candidate) => candidate.name === checkName);
      assert.ok(check, checkName);
      await assert.rejects(check.run(), assert.AssertionError);
    });
  }
});
