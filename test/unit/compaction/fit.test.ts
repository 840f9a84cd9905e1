import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Part } from "gantry";
import type { ModelMessage } from "gantry/plugin";
import { estimateTokens } from "../../../src/models/estimate.js";
import { fitMessages } from "../../../src/compaction/fit.js";
import { findCurrentPrompt, SUMMARY_HEADER, groupUnits } from "../../../src/compaction/units.js";
import { assistantMessage, toolResultMessage, toolCallPart, userMessage } from "../../helpers/model-requests.js";
import { findHistoryFaults } from "../../helpers/context-window-provider.js";
import { fc } from "../../helpers/fast-check.js";

const bodyText = fc.integer({ min: 1, max: 6_000 }).map((bytes) => "é".repeat(Math.ceil(bytes / 2)));
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
const prompt = fc
  .tuple(bodyText, fc.array(attachment, { maxLength: 2 }))
  .map(([text, files]) => [userMessage(text, ...files)]);
const answer = fc
  .tuple(bodyText, fc.array(fc.tuple(bodyText, bodyText), { maxLength: 4 }))
  .map(([text, calls]) => ({ text, calls }));
const conversation = fc
  .tuple(prompt, fc.array(fc.oneof(prompt, answer), { maxLength: 25 }))
  .map(([firstPrompt, turns]) => {
    let id = 0;
    return [
      ...firstPrompt,
      ...turns.flatMap((turn): ModelMessage[] => {
        if (Array.isArray(turn)) return turn;
        const ids = turn.calls.map(() => `c${++id}`);
        const calls = turn.calls.map(([args], i) => toolCallPart(ids[i] ?? "", "t", { args }));
        const results = turn.calls.map(([, output], i) => toolResultMessage(ids[i] ?? "", "t", output));
        return [assistantMessage(turn.text, ...calls), ...results];
      }),
    ];
  });

describe("fitMessages", () => {
  it("returns messages within the budget unchanged", () => {
    fc.assert(
      fc.property(conversation, (messages) => {
        assert.deepEqual(fitMessages(messages, estimateTokens(messages)), messages);
      }),
      { numRuns: 50 },
    );
  });

  it("never exceeds the budget or separates a call from its result, and keeps the first and current prompt", () => {
    fc.assert(
      fc.property(conversation, fc.integer({ min: 1_500, max: 20_000 }), (messages, budget) => {
        const originalPromptCount = messages.filter((message) => message.role === "user").length;
        const fittedMessages = fitMessages(messages, budget);
        assert.ok(estimateTokens(fittedMessages) <= budget, `${estimateTokens(fittedMessages)} tokens of ${budget}`);
        assert.deepEqual(findHistoryFaults(fittedMessages), []);
        assert.equal(fittedMessages[0]?.role, "user");
        const promptCount = fittedMessages.filter((message) => message.role === "user").length;
        assert.ok(promptCount >= Math.min(originalPromptCount, 2), "the first and the current prompt are kept");
        // A shortened prompt still begins with a text part.
        assert.equal(findCurrentPrompt(fittedMessages)?.parts[0]?.type, "text");
        const refittedMessages = fitMessages(fittedMessages, budget);
        assert.deepEqual(refittedMessages, fittedMessages, "a second fit changes nothing");
        assert.equal(groupUnits(fittedMessages).flat().length, fittedMessages.length);
      }),
      { numRuns: 150 },
    );
  });

  it("clears old tool outputs before it omits messages, and keeps the output that the model has not seen", () => {
    const output = "o".repeat(3_000);
    const messages = [
      userMessage("goal"),
      assistantMessage(toolCallPart("a", "t", {})),
      toolResultMessage("a", "t", output),
      assistantMessage(toolCallPart("b", "t", {})),
      toolResultMessage("b", "t", output),
    ];
    const fittedMessages = fitMessages(messages, 1_400);
    assert.equal(fittedMessages.length, 5);
    assert.deepEqual(fittedMessages[4], messages[4]);
    assert.match(JSON.stringify(fittedMessages[2]?.parts), /old tool output cleared/);
  });

  it("keeps the first prompt, the summary and the last message when it omits messages", () => {
    const messages = [userMessage("goal"), userMessage(`${SUMMARY_HEADER}what was done`)];
    for (let i = 0; i < 30; i++) messages.push(assistantMessage("a".repeat(600)), userMessage(`u${i}`));
    const fittedMessages = fitMessages(messages, 500);
    assert.deepEqual(fittedMessages.slice(0, 2), messages.slice(0, 2));
    assert.deepEqual(fittedMessages.at(-1), messages.at(-1));
    assert.ok(fittedMessages.length < 10);
  });
});
