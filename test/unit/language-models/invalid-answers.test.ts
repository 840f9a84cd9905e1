import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { hasCode, type ProviderError } from "gantry";
import { AiSdkProvider, WIRES, type WireName } from "gantry/adapters/language-models";
import { startFakeModelServer, type FakeModelServer, type FakeStep } from "../../helpers/fake-model-server.js";
import { baseUrlOf, WIRE_MODELS } from "../../helpers/model-situations.js";
import { createRequest, readTool, readAnswer } from "../../helpers/model-requests.js";

async function catchProviderError(answer: Promise<unknown>): Promise<ProviderError> {
  try {
    await answer;
  } catch (error) {
    assert.ok(hasCode(error, "provider"), String(error));
    return error;
  }
  return assert.fail("the provider returned an answer instead of an error");
}

const createEventStream = (...values: object[]): FakeStep => ({
  status: 200,
  headers: { "content-type": "text/event-stream" },
  body: values.map((value) => `data: ${JSON.stringify(value)}\n\n`).join(""),
});

/** A tool call without a name, in the format of each wire. */
const UNNAMED_CALLS: Record<WireName, FakeStep> = {
  openai: createEventStream({
    choices: [
      {
        index: 0,
        delta: { tool_calls: [{ index: 0, id: "c", function: { arguments: "{}" } }] },
        finish_reason: "stop",
      },
    ],
  }),
  "openai-responses": createEventStream(
    {
      type: "response.output_item.done",
      output_index: 0,
      item: { type: "function_call", call_id: "c", arguments: "{}" },
    },
    { type: "response.completed", response: {} },
  ),
  anthropic: createEventStream(
    { type: "content_block_start", index: 0, content_block: { type: "tool_use", id: "c", name: "", input: {} } },
    { type: "message_delta", delta: { stop_reason: "tool_use" } },
  ),
  google: createEventStream({
    candidates: [{ content: { parts: [{ functionCall: { args: {} } }] }, finishReason: "STOP" }],
  }),
};

for (const wire of WIRES) {
  describe(`invalid answers on the wire ${wire}`, () => {
    const request = createRequest({ model: WIRE_MODELS[wire], tools: [readTool], effort: "low" });
    let server: FakeModelServer;
    let provider: AiSdkProvider;
    before(async () => {
      server = await startFakeModelServer();
      provider = new AiSdkProvider({ name: "lab", driver: wire, baseUrl: baseUrlOf(wire, server), apiKey: "k" });
    });
    afterEach(() => assert.equal(server.queuedCount, 0));
    after(async () => {
      await provider.close();
      await server.close();
    });
    const assertInvalid = async (step: FakeStep, reason: string): Promise<void> => {
      server.enqueue(step);
      const error = await catchProviderError(readAnswer(provider, request));
      assert.deepEqual([error.kind, error.message], ["malformed_answer", `lab: malformed_answer: ${reason}`]);
      assert.match(error.hint ?? "", /^Your last /);
    };

    it("an empty answer, white space, reasoning alone and a nameless call are malformed_answer with a hint", async () => {
      await assertInvalid({ say: [{ open: true }] }, "an empty answer");
      await assertInvalid({ say: [{ text: "\n \n" }] }, "an empty answer");
      await assertInvalid({ say: [{ reasoning: "Hm." }] }, "reasoning without an answer");
      await assertInvalid(UNNAMED_CALLS[wire], "a tool call without a name");
    });

    if (wire === "openai" || wire === "anthropic") {
      it("a tool_calls finish without a tool call is malformed_answer", async () => {
        await assertInvalid(
          { say: [{ text: "I read." }], finish: "tool_calls" },
          "the answer ended for a tool call but contains none",
        );
      });
    }

    it("an answer cut by length or content_filter is returned, although it has only reasoning", async () => {
      for (const finish of ["length", "content_filter"] as const) {
        server.enqueue({ say: [{ reasoning: "Hm." }], finish });
        assert.equal((await readAnswer(provider, request)).finish.reason, finish);
      }
    });

    it("an error event of the server is overloaded or server, retryable, and not malformed_answer", async () => {
      for (const [error, kind] of [
        [{ message: "Overloaded", type: "overloaded_error" }, "overloaded"],
        [{ message: "The server had an error", type: "server_error" }, "server"],
        [{ message: "CUDA out of memory" }, "server"],
      ] as const) {
        server.enqueue({ say: [{ text: "a" }, { error }] });
        const thrownError = await catchProviderError(readAnswer(provider, request));
        assert.deepEqual([thrownError.kind, thrownError.retryable], [kind, true], thrownError.message);
      }
    });
  });
}

describe("provider-specific errors and costs", () => {
  let server: FakeModelServer;
  const openProviders: AiSdkProvider[] = [];
  const createProvider = (preset: string): AiSdkProvider => {
    const provider = new AiSdkProvider({ preset, name: "lab", baseUrl: server.baseUrl, apiKey: "k" });
    openProviders.push(provider);
    return provider;
  };
  before(async () => {
    server = await startFakeModelServer();
  });
  after(async () => {
    await Promise.all(openProviders.map((provider) => provider.close()));
    await server.close();
  });

  it("groq: failed_generation, with status 400 or as an event, is malformed_answer with the text in the hint", async () => {
    const failedGeneration = '<function=read{"path": "a"</function>';
    const error = {
      message: "Failed to call a function. Please adjust your prompt.",
      type: "invalid_request_error",
      code: "tool_use_failed",
      failed_generation: failedGeneration,
    };
    server.enqueue(
      { status: 400, body: { error } },
      {
        status: 200,
        headers: { "content-type": "text/event-stream" },
        body: `event: error\ndata: ${JSON.stringify({ error: { ...error, status_code: 400 } })}\n\n`,
      },
    );
    const provider = createProvider("groq");
    for (let i = 0; i < 2; i++) {
      const thrownError = await catchProviderError(readAnswer(provider, createRequest({ tools: [readTool] })));
      assert.deepEqual(
        [thrownError.kind, thrownError.message],
        ["malformed_answer", `lab: 400: the model made a malformed tool call: ${failedGeneration}`],
      );
      assert.ok(thrownError.hint?.includes(failedGeneration), thrownError.hint);
    }
  });

  it("llama.cpp: an `error:` field in the middle of an answer is a server error with its message", async () => {
    const errorEvent = JSON.stringify({ error: { message: "failed to decode, try again" } });
    const textEvent = JSON.stringify({ choices: [{ index: 0, delta: { content: "a" } }] });
    server.enqueue({
      status: 200,
      headers: { "content-type": "text/event-stream" },
      body: `data: ${textEvent}\n\nerror: ${errorEvent}\n\n`,
    });
    const thrownError = await catchProviderError(readAnswer(createProvider("llamacpp"), createRequest()));
    assert.deepEqual([thrownError.kind, thrownError.message], ["server", "lab: server: failed to decode, try again"]);
  });

  it("openrouter: the reported cost counts, plus the upstream cost with the user's own key", async () => {
    const createUsageAnswer = (usage: object): FakeStep =>
      createEventStream({
        choices: [{ index: 0, delta: { content: "Hi" }, finish_reason: "stop" }],
        usage: { prompt_tokens: 1000, completion_tokens: 200, ...usage },
      });
    server.dialect = { body: ["usage"] };
    const provider = createProvider("openrouter");
    const { signal } = new AbortController();
    const prices = { input: 3, output: 15 };
    const request = createRequest({ model: { id: "anthropic/claude-sonnet-4.5", name: "C", ownedBy: "a", prices } });
    for (const [usage, cost] of [
      [{ cost: 0.00123456 }, 0.00123456],
      [{ cost: "0.00123456" }, 0.00123456],
      [{ cost: 0.001, is_byok: true, cost_details: { upstream_inference_cost: 0.02 } }, 0.021],
    ] as const) {
      server.enqueue(createUsageAnswer(usage));
      const { finish } = await readAnswer(provider, request, signal);
      assert.deepEqual([finish.usage.cost, finish.usage.costReported], [cost, true]);
    }
  });
});
