import assert from "node:assert/strict";
import type { ModelChunk, ModelRequest } from "../../ports/model-provider.js";
import type { ModelMessage, Part, ReasoningPart, TextPart } from "../../ports/message.js";
import { joinTexts, type ProviderHarness, type ProviderRules } from "./harness.js";

type ToolCallChunk = Extract<ModelChunk, { type: "tool_call" }>;

export const answerRules: ProviderRules = {
  "stream: yields text in at least three chunks, and exactly one finish, at the end": async (harness) => {
    const { chunks, finish } = await harness.ask(await harness.fixture.text());
    const texts = chunks.filter((chunk) => chunk.type === "text");
    assert.ok(texts.length >= 3, `at least three chunks of text, got ${texts.length}`);
    for (const chunk of chunks) {
      if (chunk.type !== "text" && chunk.type !== "reasoning") continue;
      assert.equal(typeof chunk.block, "string", "block");
      assert.equal(typeof chunk.text, "string", "text");
    }
    assert.ok(
      finish.reason === null || ["stop", "length", "content_filter", "tool_calls"].includes(finish.reason),
      `reason ${String(finish.reason)}`,
    );
  },
  "finish: usage has valid and consistent token counts": async (harness) => {
    const { usage } = (await harness.ask(await harness.fixture.text())).finish;
    const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens, cost } = usage;
    for (const [name, tokens] of Object.entries({
      inputTokens,
      outputTokens,
      cacheReadTokens,
      cacheWriteTokens,
      reasoningTokens,
    }))
      assert.ok(Number.isSafeInteger(tokens) && tokens >= 0, `${name}: ${String(tokens)}`);
    assert.ok(inputTokens > 0 && outputTokens > 0, "an answer has tokens");
    assert.ok(cacheReadTokens + cacheWriteTokens <= inputTokens, "input tokens include cached tokens");
    assert.ok(reasoningTokens <= outputTokens, "output tokens include reasoning tokens");
    assert.ok(cost === undefined || (Number.isFinite(cost) && cost >= 0), `cost: ${String(cost)}`);
  },
  "stream: does not modify the request": async (harness) => {
    const request = await harness.fixture.text();
    const requestBefore = JSON.stringify(request);
    await harness.ask(request);
    assert.equal(JSON.stringify(request), requestBefore);
  },
  "stream: the same request can be sent twice and is answered twice": async (harness) => {
    const firstAnswer = await harness.ask(await harness.fixture.text());
    const secondAnswer = await harness.ask(await harness.fixture.text());
    assert.ok(joinTexts(firstAnswer.chunks) !== "" && joinTexts(secondAnswer.chunks) !== "", "both answers have text");
  },
};

/** Rules for models that call tools. */
export function callRules(prepareRequest: () => Promise<ModelRequest>): ProviderRules {
  return {
    "tool call: complete, of an offered tool, with a unique id and JSON arguments; the finish reason is tool_calls":
      async (harness) => {
        const request = await prepareRequest();
        const { calls, finish } = await requestCalls(harness, request);
        assert.equal(finish.reason, "tool_calls");
        assert.equal(new Set(calls.map(({ id }) => id)).size, calls.length, "ids");
        for (const { id, name, arguments: argumentsText } of calls) {
          assert.ok(id !== "", "an id");
          assert.ok(
            request.tools.some((tool) => tool.name === name),
            `an offered tool, got ${name}`,
          );
          const value: unknown = JSON.parse(argumentsText);
          assert.ok(typeof value === "object" && value !== null && !Array.isArray(value), "arguments are an object");
        }
      },
    "tool call: the conversation continues with the tool's result": async (harness) => {
      const request = await prepareRequest();
      const { calls, message } = await requestCalls(harness, request);
      const results = calls.map(({ id, name }): ModelMessage => ({
        role: "tool",
        parts: [{ type: "text", text: "a result" }],
        toolCallId: id,
        name,
        failed: false,
      }));
      await harness.fixture.text();
      const { chunks } = await harness.ask({ ...request, messages: [...request.messages, message, ...results] });
      assert.notEqual(chunks.length, 0, "an answer to the results");
    },
  };
}

/** Returns the calls of an answer, and the answer as the core sends it back. */
async function requestCalls(harness: ProviderHarness, request: ModelRequest) {
  const { chunks, finish } = await harness.ask(request);
  const calls = chunks.filter((chunk): chunk is ToolCallChunk => chunk.type === "tool_call");
  assert.ok(calls.length > 0, "a complete tool call");
  const toOpaque = (data: unknown) =>
    data === undefined ? {} : { opaque: { provider: harness.provider.name, model: request.model.id, data } };
  const parts: Part[] = [];
  const partsByBlock = new Map<string, TextPart | ReasoningPart>();
  for (const chunk of chunks) {
    if (chunk.type === "tool_call") {
      const { id, name, arguments: argumentsText, opaque } = chunk;
      parts.push({ type: "tool_call", id, name, arguments: argumentsText, ...toOpaque(opaque) });
    } else if (chunk.type === "text" || chunk.type === "reasoning") {
      const existingPart = partsByBlock.get(chunk.block);
      const part: TextPart | ReasoningPart = existingPart ?? { type: chunk.type, text: "" };
      if (!existingPart) parts.push(part);
      partsByBlock.set(chunk.block, part);
      part.text += chunk.text;
      Object.assign(part, toOpaque(chunk.opaque));
    }
  }
  const message: ModelMessage = { role: "assistant", parts, toolCallId: "", name: "", failed: false };
  return { calls, finish, message };
}
