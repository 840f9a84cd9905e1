import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Part } from "gantry";
import type { ModelMessage } from "gantry/plugin";
import { estimateTokens } from "../../../src/models/estimate.js";
import { fit } from "../../../src/compaction/fit.js";
import { currentPrompt, SUMMARY_HEAD, unitsOf } from "../../../src/compaction/units.js";
import { assistant, result, toolCall, user } from "../../helpers/model-requests.js";
import { brokenRules } from "../../helpers/window-provider.js";
import { fc } from "../../helpers/properties.js";

const body = fc.integer({ min: 1, max: 6_000 }).map((bytes) => "é".repeat(Math.ceil(bytes / 2)));
const attachment = fc.constantFrom<Part>(
  { type: "image", mediaType: "image/png", data: "AAAA" },
  { type: "file", mediaType: "application/octet-stream", filename: "a.bin", data: "AAECgP8=" },
  {
    type: "file",
    mediaType: "application/octet-stream",
    filename: "a.txt",
    data: Buffer.from("t".repeat(5_000)).toString("base64"),
  },
);
const prompt = fc.tuple(body, fc.array(attachment, { maxLength: 2 })).map(([text, files]) => [user(text, ...files)]);
const answer = fc
  .tuple(body, fc.array(fc.tuple(body, body), { maxLength: 4 }))
  .map(([text, calls]) => ({ text, calls }));
const conversation = fc.tuple(prompt, fc.array(fc.oneof(prompt, answer), { maxLength: 25 })).map(([first, turns]) => {
  let id = 0;
  return [
    ...first,
    ...turns.flatMap((turn): ModelMessage[] => {
      if (Array.isArray(turn)) return turn;
      const ids = turn.calls.map(() => `c${++id}`);
      const calls = turn.calls.map(([args], i) => toolCall(ids[i] ?? "", "t", { args }));
      const results = turn.calls.map(([, output], i) => result(ids[i] ?? "", "t", output));
      return [assistant(turn.text, ...calls), ...results];
    }),
  ];
});

describe("fit", () => {
  it("returns messages within the budget unchanged", () => {
    fc.assert(
      fc.property(conversation, (messages) => {
        assert.deepEqual(fit(messages, estimateTokens(messages)), messages);
      }),
      { numRuns: 50 },
    );
  });

  it("never exceeds the budget or separates a call from its result, and keeps the first and current prompt", () => {
    fc.assert(
      fc.property(conversation, fc.integer({ min: 1_500, max: 20_000 }), (messages, budget) => {
        const prompts = messages.filter((message) => message.role === "user").length;
        const fitted = fit(messages, budget);
        assert.ok(estimateTokens(fitted) <= budget, `${estimateTokens(fitted)} tokens of ${budget}`);
        assert.deepEqual(brokenRules(fitted), []);
        assert.equal(fitted[0]?.role, "user");
        const roles = fitted.filter((message) => message.role === "user").length;
        assert.ok(roles >= Math.min(prompts, 2), "first and current");
        // The prompt is shortened, but still the same prompt: its first letter is kept.
        assert.equal(currentPrompt(fitted)?.parts[0]?.type, "text");
        const refitted = fit(fitted, budget);
        assert.deepEqual(refitted, fitted, "doing it twice changes nothing");
        assert.equal(unitsOf(fitted).flat().length, fitted.length);
      }),
      { numRuns: 150 },
    );
  });

  it("clears old tool outputs before it omits messages, and keeps the output that the model has not seen", () => {
    const output = "o".repeat(3_000);
    const messages = [
      user("goal"),
      assistant(toolCall("a", "t", {})),
      result("a", "t", output),
      assistant(toolCall("b", "t", {})),
      result("b", "t", output),
    ];
    const fitted = fit(messages, 1_400);
    assert.equal(fitted.length, 5);
    assert.deepEqual(fitted[4], messages[4]);
    assert.match(JSON.stringify(fitted[2]?.parts), /old tool output cleared/);
  });

  it("keeps the first prompt, the summary and the last message when it omits messages", () => {
    const messages = [user("goal"), user(`${SUMMARY_HEAD}what was done`)];
    for (let i = 0; i < 30; i++) messages.push(assistant("a".repeat(600)), user(`u${i}`));
    const fitted = fit(messages, 500);
    assert.deepEqual(fitted.slice(0, 2), messages.slice(0, 2));
    assert.deepEqual(fitted.at(-1), messages.at(-1));
    assert.ok(fitted.length < 10);
  });
});
