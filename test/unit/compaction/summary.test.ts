import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, ProviderError, SlidingWindow, type Message, type Part } from "gantry";
import type { CompactionInput, ModelMessage } from "gantry/plugin";
import { say, ScriptedProvider } from "gantry/testing";
import { Summary } from "../../../src/compaction/summary.js";
import { SUMMARY_HEADER } from "../../../src/compaction/units.js";

const SIGNAL = new AbortController().signal;

const toText = ({ parts }: ModelMessage): string =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("\n");

/** Estimates like the core. */
const estimate = (messages: readonly ModelMessage[]): number =>
  Math.ceil(messages.reduce((sum, message) => sum + Buffer.byteLength(toText(message)), 0) / 3);

/** Creates a conversation of user messages and, for a pair, of a call with its result. */
function createMessages(...contents: readonly (string | readonly [call: string, result: string])[]): Message[] {
  const messages: Message[] = [];
  const add = (role: Message["role"], parts: Part[], toolCallId = "") => {
    const seq = messages.length + 1;
    const fields = { id: `m${seq}`, sessionId: "s", seq, toolCallId, name: toolCallId === "" ? "" : "read" };
    messages.push({ ...fields, role, parts, failed: false, finished: true, createdAt: new Date(seq).toISOString() });
  };
  for (const [i, content] of contents.entries()) {
    if (typeof content === "string") add("user", [{ type: "text", text: content }]);
    else {
      add("assistant", [{ type: "tool_call", id: `c${i}`, name: "read", arguments: content[0] }]);
      add("tool", [{ type: "text", text: content[1] }], `c${i}`);
    }
  }
  return messages;
}

/** Summarizes messages. Returns the question and the view. */
async function summarize(messages: readonly Message[], overrides: Partial<CompactionInput> = {}) {
  const questions: Parameters<CompactionInput["ask"]>[0][] = [];
  const ask: CompactionInput["ask"] = (question) => (questions.push(question), Promise.resolve("notes"));
  const view = await new Summary().compact(
    { messages, budget: 10_000, keepMessages: 2, estimate, ask, ...overrides },
    SIGNAL,
  );
  const [question] = questions;
  assert.ok(question && questions.length === 1);
  return { question, view };
}

describe("the strategy summary", () => {
  const output = `${"start\n".repeat(1_000)}MIDDLE\n${"end\n".repeat(1_000)}`;
  const messages = createMessages("goal", ['{"path":"a"}', output], "next", ['{"path":"b"}', "b"]);

  it("cuts tool outputs in the transcript only as far as the question would not fit", async () => {
    const large = await summarize(messages, { maxQuestionTokens: 20_000 });
    assert.ok(large.question.message.includes(`tool read: ${output}`));
    const small = await summarize(messages, { maxQuestionTokens: 6_500 });
    assert.equal(small.question.message.includes("MIDDLE"), false);
    const questionBytes = Buffer.byteLength(small.question.system + small.question.message);
    assert.ok(questionBytes / 3 + small.question.maxTokens <= 6_500, `${questionBytes} bytes`);
    assert.ok(Buffer.byteLength(small.question.message) > 1_000);
    const unknown = await summarize(messages);
    assert.ok(Buffer.byteLength(unknown.question.message) < 3_000);
  });

  it("allows at most 16,000 tokens, and two fifths of the budget", async () => {
    for (const [budget, tokens] of [
      [5_000, 2_000],
      [25_000, 10_000],
      [100_000, 16_000],
    ] as const) {
      const { question } = await summarize(messages, { budget });
      assert.equal(question.maxTokens, tokens);
      assert.ok(question.system.endsWith(`The notes may have ${tokens / 2} words.`));
    }
  });

  it("asks for its sections in their order, with the earlier notes and the original of a shortened prompt", async () => {
    const goal = `${"goal ".repeat(1_000)}and at last the requirement`;
    const { question, view } = await summarize(
      createMessages(goal, `${SUMMARY_HEADER}earlier notes`, ['{"path":"a"}', "a"], "next", ['{"path":"b"}', "b"]),
    );
    assert.deepEqual(question.system.match(/(?<=^## ).*$/gm), [
      "Goal and constraints",
      "Todo list",
      "Files",
      "Background commands",
      "Open errors",
      "Decisions and findings",
      "Next step",
    ]);
    assert.ok(question.message.includes("and at last the requirement"));
    assert.ok(question.message.includes("earlier notes"));
    assert.equal(view.filter((message) => toText(message).startsWith(SUMMARY_HEADER)).length, 1);
    assert.ok(toText(view[0]!).length <= 2_000);
  });

  it("keeps only messages that fit unchanged, because the summary contains no others", async () => {
    const conversation = createMessages(
      "goal",
      ...Array.from({ length: 8 }, (_, i) => [`{"n":${i}}`, output] as const),
    );
    const { question, view } = await summarize(conversation, { keepMessages: 20, maxQuestionTokens: 60_000 });
    const results = view.filter(({ role }) => role === "tool").map(toText);
    assert.deepEqual([...new Set(results)], [output]);
    assert.equal(question.message.split("MIDDLE").length - 1, 8 - results.length);
  });

  it("is replaced by a sliding window that keeps the summary", async () => {
    const conversation = createMessages("goal", `${SUMMARY_HEADER}earlier notes`, ["{}", "a"], "next", ["{}", "b"]);
    const ask = () => Promise.reject(new Error("not asked"));
    const view = await new SlidingWindow().compact(
      { messages: conversation, budget: 10_000, keepMessages: 2, estimate, ask },
      SIGNAL,
    );
    assert.deepEqual(view.map(toText), [
      "goal\n[Earlier messages of this conversation were left out to save room in the context window.]",
      `${SUMMARY_HEADER}earlier notes`,
      "next",
      "",
      "b",
    ]);
  });

  it("repeats a question that the provider rejected as too long, with a shorter transcript", async (t) => {
    const questions: number[] = [];
    const provider = new ScriptedProvider([], {
      models: [{ id: "m", name: "m", ownedBy: "x", contextWindow: 16_000 }],
      fallback: ({ system, messages: [message] }) => {
        if (!system.startsWith("You write notes")) return say("word ".repeat(600));
        questions.push(toText(message!).length);
        if (questions.length % 2 === 1) throw new ProviderError("scripted", "context_length", "too long");
        return say("notes");
      },
    });
    const agent = new Agent({ providers: [provider], projectInstructions: false });
    t.after(() => agent.close());
    const strategies: string[] = [];
    agent.on("session.compacted", ({ strategy }) => strategies.push(strategy));
    let sessionId: string | undefined;
    for (let n = 0; strategies.length === 0; n += 1) {
      assert.ok(n < 50);
      const run = await agent.run({ message: `${n} ${"word ".repeat(600)}`, ...(sessionId && { sessionId }) });
      await run.result;
      sessionId = run.sessionId;
    }
    assert.deepEqual(strategies, ["summary"]);
    assert.equal(questions.length, 2);
    assert.ok(questions[1]! < questions[0]!, questions.join(" "));
  });
});
