import assert from "node:assert/strict";
import type { CompactionInput, CompactionStrategy } from "../ports/compaction-strategy.js";
import type { Message, ModelMessage, Part } from "../ports/message.js";
import { DEFAULT_TIMEOUT_MS, withTimeout, type Check, type CheckRules } from "./check.js";

/** Gives the checks access to a strategy. */
export interface CompactionStrategyFixture {
  /** Called once at the start of every check. */
  create(): Promise<CompactionStrategy>;
  /** Time limit of the checks for expected events, in ms. Default 10,000. Only failing checks take that long. */
  readonly timeoutMs?: number | undefined;
}

/** Returns one check for each rule of the `CompactionStrategy` contract. All are required. */
export function compactionStrategyChecks(fixture: CompactionStrategyFixture): Check[] {
  return Object.entries(RULES).map(([name, body]) => ({
    name,
    run: async () => body(await fixture.create(), fixture.timeoutMs ?? DEFAULT_TIMEOUT_MS),
  }));
}

const NEVER_ABORTED = new AbortController().signal;

/** Approximates the core's token estimate: bytes / 3. */
function estimateTokens(messages: readonly ModelMessage[]): number {
  return Math.ceil(Buffer.byteLength(JSON.stringify(messages)) / 3);
}

/** Returns a conversation in which each turn has a question, a call, its result and an answer. */
function createConversation(turnCount: number): Message[] {
  const messages: Message[] = [];
  const add = (role: Message["role"], parts: Part[], toolCallId = "") => {
    const seq = messages.length + 1;
    messages.push({
      id: `m${seq}`,
      sessionId: "s",
      seq,
      role,
      parts,
      toolCallId,
      name: toolCallId === "" ? "" : "read",
      failed: false,
      finished: true,
      createdAt: new Date(seq * 1000).toISOString(),
    });
  };
  for (let turn = 1; turn <= turnCount; turn += 1) {
    add("user", [{ type: "text", text: `question ${turn} ${"why ".repeat(50)}` }]);
    add("assistant", [{ type: "tool_call", id: `c${turn}`, name: "read", arguments: '{"path":"a"}' }]);
    add("tool", [{ type: "text", text: `result ${turn} ${"line ".repeat(200)}` }], `c${turn}`);
    add("assistant", [{ type: "text", text: `answer ${turn} ${"because ".repeat(50)}` }]);
  }
  return messages;
}

function createInput(messages: readonly Message[], overrides: Partial<CompactionInput> = {}): CompactionInput {
  return {
    messages,
    budget: Math.floor(estimateTokens(messages) / 2),
    keepMessages: 8,
    estimate: estimateTokens,
    ask: () => Promise.resolve("Summary: earlier questions and their answers."),
    ...overrides,
  };
}

/** Returns the id of a message, or an empty string for a new message without an id. */
const idOf = (message: ModelMessage | undefined): string => (message as Partial<Message> | undefined)?.id ?? "";

const listCallIds = (messages: readonly ModelMessage[]): string[] =>
  messages.flatMap(({ parts }) => parts.flatMap((part) => (part.type === "tool_call" ? [part.id] : [])));

const RULES: CheckRules<[strategy: CompactionStrategy, timeoutMs: number]> = {
  "name: not empty, because events contain it": async ({ name }) =>
    assert.ok(typeof name === "string" && name.trim() !== "", "name is not empty"),
  "compact: gives a conversation that is smaller and not empty": async (strategy) => {
    const messages = createConversation(30);
    const result = await strategy.compact(createInput(messages), NEVER_ABORTED);
    assert.ok(Array.isArray(result) && result.length > 0, "a list of messages");
    assert.ok(estimateTokens(result) < estimateTokens(messages), "smaller than before");
  },
  "compact: a tool call and its result are kept or removed together": async (strategy) => {
    for (const turnCount of [2, 5, 30]) {
      const messages = createConversation(turnCount);
      const result = await strategy.compact(createInput(messages, { keepMessages: 3 }), NEVER_ABORTED);
      const resultCallIds = result.flatMap(({ toolCallId }) => (toolCallId === "" ? [] : [toolCallId]));
      assert.deepEqual(listCallIds(result).sort(), resultCallIds.sort(), `calls and results after ${turnCount} turns`);
    }
  },
  "compact: kept messages keep their ids and order, and no id occurs twice": async (strategy) => {
    const messages = createConversation(30);
    const result = await strategy.compact(createInput(messages), NEVER_ABORTED);
    const ids = result.map(idOf).filter((id) => id !== "");
    assert.equal(new Set(ids).size, ids.length, "ids are distinct");
    const keptIds = ids.filter((id) => messages.some((message) => message.id === id));
    assert.ok(keptIds.length > 0, "at least one message stays");
    const positions = keptIds.map((id) => messages.findIndex((message) => message.id === id));
    assert.deepEqual(
      positions,
      [...positions].sort((a, b) => a - b),
      "messages stay in order",
    );
  },
  "compact: keeps the last message": async (strategy) => {
    const messages = createConversation(30);
    const result = await strategy.compact(createInput(messages), NEVER_ABORTED);
    assert.equal(idOf(result.at(-1)), messages.at(-1)?.id);
  },
  "compact: does not modify its input": async (strategy) => {
    const messages = createConversation(10);
    const inputBefore = structuredClone(messages);
    await strategy.compact(createInput(messages), NEVER_ABORTED);
    assert.deepEqual(messages, inputBefore);
  },
  "compact: settles soon after an abort, even if the model never answers": async (strategy, timeoutMs) => {
    const abortController = new AbortController();
    const ask: CompactionInput["ask"] = (_question, signal) =>
      new Promise((_resolve, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true }),
      );
    const work = strategy.compact(createInput(createConversation(30), { ask }), abortController.signal).then(
      () => undefined,
      () => undefined,
    );
    abortController.abort(new Error("cancelled"));
    await withTimeout(work, "compact settles", timeoutMs);
  },
};
