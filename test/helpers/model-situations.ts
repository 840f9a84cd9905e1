/** Situations that every wire must handle. A test runs the list, and docs/models.md shows it as a table. */
import assert from "node:assert/strict";
import { hasCode, type ProviderError, type ProviderErrorKind } from "gantry";
import type { Model, ModelRequest } from "gantry/plugin";
import type { AiSdkProvider, WireName } from "gantry/adapters/language-models";
import { callStep, errorStep, textStep, type FakeModelServer, type FakeStep } from "./fake-model-server.js";
import {
  createRequest,
  assistantMessage,
  PDF,
  PNG,
  readTool,
  toolResultMessage,
  readAnswer,
  toolCallPart,
  userMessage,
  writeTool,
  type CompleteAnswer,
} from "./model-requests.js";

export interface SituationContext {
  wire: WireName;
  /** A model with reasoning, image input and tool calls. */
  model: Model;
  server: FakeModelServer;
  provider: AiSdkProvider;
  /** An API key that must never appear in messages. */
  key: string;
}

export interface Situation {
  name: string;
  /** Wires on which the situation cannot occur, with the reason. */
  exceptions?: Partial<Record<WireName, string>>;
  run(context: SituationContext): Promise<void>;
}

export const WIRE_MODELS: Readonly<Record<WireName, Model>> = {
  openai: { id: "m1", name: "m1", ownedBy: "test", input: ["text", "image", "pdf"], maxOutput: 8000 },
  "openai-responses": { id: "gpt-5", name: "GPT-5", ownedBy: "test", reasoning: true, maxOutput: 8000 },
  anthropic: { id: "claude-sonnet-4-5", name: "Claude", ownedBy: "test", reasoning: true, maxOutput: 64_000 },
  google: { id: "gemini-3-pro-preview", name: "Gemini", ownedBy: "test", reasoning: true, maxOutput: 8000 },
};

export function baseUrlOf(wire: WireName, server: FakeModelServer): string {
  return wire === "google" ? `${server.url}/v1beta` : server.baseUrl;
}

async function expectFailure(
  context: SituationContext,
  steps: FakeStep[],
  request: Partial<ModelRequest> = {},
): Promise<ProviderError> {
  context.server.enqueue(...steps);
  let answer: CompleteAnswer;
  try {
    answer = await readAnswer(context.provider, createRequest({ model: context.model, ...request }));
  } catch (error) {
    assert.ok(hasCode(error, "provider"), String(error));
    assert.ok(error.message.startsWith("lab: "), error.message);
    assert.ok(!error.message.includes(context.key) && !/[\r\n]/.test(error.message), error.message);
    // The provider can be used after the error: the next request succeeds.
    assert.equal((await readAnswer(context.provider, createRequest({ model: context.model, ...request }))).text, "OK.");
    return error;
  }
  return assert.fail(`no error, but ${JSON.stringify(answer.finish)}`);
}

function createFaultSituation(
  name: string,
  step: FakeStep,
  kind: ProviderErrorKind,
  inspect?: (error: ProviderError) => void,
): Situation {
  return {
    name,
    async run(context) {
      const error = await expectFailure(context, [step]);
      assert.equal(error.kind, kind, error.message);
      inspect?.(error);
    },
  };
}

const getLastRequest = (context: SituationContext) => context.server.requests.at(-1)!;

export const SITUATIONS: readonly Situation[] = [
  {
    name: "text and usage",
    async run({ server, provider, model, wire }) {
      server.enqueue(
        textStep(["Hel", "lo"], {
          usage: { input: 1000, output: 50, cacheRead: 600, ...(wire === "anthropic" ? { cacheWrite: 100 } : {}) },
        }),
      );
      const { text, finish } = await readAnswer(provider, createRequest({ model, tools: [readTool] }));
      assert.equal(text, "Hello");
      const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, estimated } = finish.usage;
      assert.deepEqual([inputTokens, outputTokens, cacheReadTokens, estimated], [1000, 50, 600, undefined]);
      assert.equal(cacheWriteTokens, wire === "anthropic" ? 100 : 0);
      assert.equal(finish.reason, "stop");
    },
  },
  {
    name: "reasoning, streamed and counted",
    async run({ server, provider, model }) {
      server.enqueue({
        say: [{ reasoning: ["Let me ", "see."] }, { text: "So." }],
        usage: { input: 10, output: 30, reasoning: 20 },
      });
      const { reasoning, text, finish } = await readAnswer(provider, createRequest({ model, effort: "medium" }));
      assert.deepEqual([reasoning, text], ["Let me see.", "So."]);
      assert.deepEqual([finish.usage.reasoningTokens, finish.usage.outputTokens], [20, 30]);
    },
  },
  {
    name: "a tool call and its result",
    async run({ server, provider, model }) {
      server.enqueue({
        say: [{ reasoning: "Read it." }, { text: "I read." }, { call: { name: "read", arguments: { path: "a" } } }],
      });
      const request = createRequest({ model, tools: [readTool], effort: "low" });
      const { calls, message, finish } = await readAnswer(provider, request);
      assert.deepEqual(JSON.parse(calls[0]!.arguments), { path: "a" });
      assert.equal(finish.reason, "tool_calls");
      const messages = [...request.messages, message, toolResultMessage(calls[0]!.id, "read", "contents")];
      assert.equal((await readAnswer(provider, { ...request, messages })).text, "OK.");
    },
  },
  {
    name: "parallel tool calls, one failed",
    async run({ server, provider, model }) {
      server.enqueue({
        say: [
          { reasoning: "Both." },
          {
            calls: [
              { name: "read", arguments: { path: "a" } },
              { name: "write", arguments: { path: "b" } },
            ],
          },
        ],
      });
      const request = createRequest({ model, tools: [readTool, writeTool], effort: "low" });
      const { calls, message } = await readAnswer(provider, request);
      assert.deepEqual(
        calls.map(({ name }) => name),
        ["read", "write"],
      );
      // The results have the order of completion, not the order of the calls.
      const results = [
        toolResultMessage(calls[1]!.id, "write", "no such folder", true),
        toolResultMessage(calls[0]!.id, "read", "A"),
      ];
      assert.equal(
        (await readAnswer(provider, { ...request, messages: [...request.messages, message, ...results] })).text,
        "OK.",
      );
    },
  },
  {
    name: "effort levels",
    async run({ provider, model }) {
      for (const effort of ["minimal", "low", "medium", "high", ""] as const) {
        assert.equal((await readAnswer(provider, createRequest({ model, effort, temperature: 1 }))).text, "OK.");
      }
    },
  },
  {
    name: "images and PDFs of files",
    async run(context) {
      const createFilePart = (filename: string, data: string) => ({
        type: "file" as const,
        mediaType: "application/octet-stream",
        filename,
        data,
      });
      await readAnswer(
        context.provider,
        createRequest({
          model: context.model,
          messages: [userMessage("Look", createFilePart("a", PNG), createFilePart("b.pdf", PDF))],
        }),
      );
      const body = JSON.stringify(getLastRequest(context).body);
      assert.ok(body.includes(PNG) && body.includes(PDF));
    },
  },
  {
    name: "images of tool results",
    async run(context) {
      const messages = [
        userMessage("Look"),
        assistantMessage(toolCallPart("c1", "read", { path: "a.png" }), toolCallPart("c2", "read", { path: "b" })),
        toolResultMessage("c1", "read", [{ type: "image", mediaType: "image/png", data: PNG }]),
        toolResultMessage("c2", "read", "B"),
      ];
      await readAnswer(context.provider, createRequest({ model: context.model, tools: [readTool], messages }));
      assert.ok(JSON.stringify(getLastRequest(context).body).includes(PNG));
    },
  },
  {
    name: "a history of another provider: unusual ids, invalid arguments, empty and blank texts",
    async run({ provider, model }) {
      const invalidCallId = `functions.read:0|${"x".repeat(80)}`;
      const messages = [
        userMessage("One"),
        userMessage("  "),
        assistantMessage(
          { type: "reasoning", text: "hm", opaque: { provider: "other", model: "m", data: { other: { x: 1 } } } },
          "",
          toolCallPart(invalidCallId, "read", "{broken"),
          toolCallPart("é", "read", "[]"),
        ),
        toolResultMessage(invalidCallId, "read", "", true),
        toolResultMessage("é", "read", "  "),
        assistantMessage(" "),
        assistantMessage("Fine."),
        userMessage("cut \ud83d"),
      ];
      assert.equal((await readAnswer(provider, createRequest({ model, tools: [readTool], messages }))).text, "OK.");
    },
  },
  {
    name: "tool names that no provider accepts in a history, arguments nested too deep",
    async run(context) {
      const { provider, model } = context;
      const names = [
        "",
        " ",
        "odd \u001b]0;title\u0007",
        "x".repeat(200),
        "t\ud83d",
        "读",
        "a.b",
        "3d-print",
        "-",
        "_ok",
      ];
      const deepArguments = `{"path":${"[".repeat(50_000)}${"]".repeat(50_000)}}`;
      const calls = names.map((name, i) => toolCallPart(`c${i}`, name, i === 0 ? deepArguments : { path: "a" }));
      const messages = [
        userMessage("Go"),
        assistantMessage(...calls),
        ...names.map((name, i) =>
          toolResultMessage(
            `c${i}`,
            name,
            i === 1 ? [{ type: "image", mediaType: "image/png", data: PNG }] : "no such tool",
            true,
          ),
        ),
      ];
      assert.equal((await readAnswer(provider, createRequest({ model, tools: [readTool], messages }))).text, "OK.");
      const bodyText = JSON.stringify(getLastRequest(context).body);
      // A name that is valid on the wire stays unchanged.
      for (const validName of ["_ok", ...(context.wire === "google" ? [] : ["3d-print"])])
        assert.ok(
          bodyText.includes(`"name":"${validName}"`) || bodyText.includes(`"function":{"name":"${validName}"`),
          validName,
        );
    },
  },
  {
    name: "reasoning cut off by a cancel is not sent back",
    async run({ server, provider, model }) {
      server.enqueue({ say: [{ reasoning: "Let me see." }, { text: "Half" }] });
      const { message } = await readAnswer(provider, createRequest({ model, effort: "low" }));
      const reasoningMessage = { ...message, parts: message.parts.filter(({ type }) => type === "reasoning") };
      await readAnswer(
        provider,
        createRequest({
          model,
          effort: "low",
          messages: [userMessage("Hello"), reasoningMessage, userMessage("Go on")],
        }),
      );
    },
  },
  {
    name: "a prefix that stays the same, byte for byte",
    async run(context) {
      const { server, provider, model } = context;
      server.enqueue({ say: [{ reasoning: "Hm." }, { call: { name: "read", arguments: { b: 1, a: 2 } } }] });
      const request = createRequest({ model, tools: [readTool], effort: "low" });
      const { calls, message } = await readAnswer(provider, request);
      const messages = [...request.messages, message, toolResultMessage(calls[0]!.id, "read", "A")];
      await readAnswer(provider, { ...request, messages });
      const secondRequest = splitBody(getLastRequest(context).body);
      await readAnswer(provider, {
        ...request,
        messages: [...messages, assistantMessage("Yes."), userMessage("More")],
      });
      const thirdRequest = splitBody(getLastRequest(context).body);
      assert.ok(thirdRequest.history.startsWith(secondRequest.history.slice(0, -1)));
      assert.equal(thirdRequest.otherFields, secondRequest.otherFields);
    },
  },
  {
    name: "the model's own output limit",
    async run(context) {
      await readAnswer(context.provider, createRequest({ model: { ...context.model, maxOutput: 3000 } }));
      assert.match(
        JSON.stringify(getLastRequest(context).body),
        /"(max_tokens|max_output_tokens|maxOutputTokens)":3000\b/,
      );
    },
  },
  {
    name: "finish reasons: length, content filter",
    async run({ server, provider, model }) {
      for (const [finish, reason] of [
        ["length", "length"],
        ["content_filter", "content_filter"],
      ] as const) {
        server.enqueue(textStep("x", { finish }));
        assert.equal((await readAnswer(provider, createRequest({ model }))).finish.reason, reason);
      }
    },
  },
  {
    name: "a refusal",
    async run({ server, provider, model, wire }) {
      server.enqueue({ say: [{ refusal: "I can't." }], finish: "refusal" });
      const { text, finish } = await readAnswer(provider, createRequest({ model }));
      assert.equal(text, "I can't.");
      assert.equal(finish.reason, wire === "openai" ? "stop" : "content_filter");
    },
  },
  {
    name: "a tool call with broken JSON",
    exceptions: { google: "arguments are objects" },
    async run({ server, provider, model }) {
      server.enqueue(callStep("read", '{"path": "unterminated'));
      const request = createRequest({ model, tools: [readTool] });
      const { calls, message } = await readAnswer(provider, request);
      assert.equal(calls[0]!.arguments, '{"path": "unterminated');
      await readAnswer(provider, {
        ...request,
        messages: [...request.messages, message, toolResultMessage(calls[0]!.id, "read", "bad JSON", true)],
      });
    },
  },
  {
    name: "calls of an unknown tool and without arguments",
    async run({ server, provider, model }) {
      server.enqueue({
        say: [{ call: { name: "nothing", arguments: {} } }, { call: { name: "read", arguments: "" } }],
      });
      const request = createRequest({ model, tools: [readTool] });
      const { calls, message } = await readAnswer(provider, request);
      assert.deepEqual(
        calls.map(({ name, arguments: args }) => [name, args]),
        [
          ["nothing", "{}"],
          ["read", "{}"],
        ],
      );
      const results = calls.map(({ id, name }) => toolResultMessage(id, name, "no", true));
      await readAnswer(provider, { ...request, messages: [...request.messages, message, ...results] });
    },
  },
  {
    name: "300 kB of arguments",
    async run({ server, provider, model }) {
      const content = "x".repeat(300_000);
      server.enqueue({ say: [{ call: { name: "write", arguments: { path: "a", content }, pieces: 2000 } }] });
      const { calls } = await readAnswer(provider, createRequest({ model, tools: [writeTool] }));
      assert.equal((JSON.parse(calls[0]!.arguments) as { content: string }).content.length, 300_000);
    },
  },
  {
    name: "missing usage, estimated and marked",
    async run({ server, provider, model }) {
      server.enqueue(textStep("x".repeat(300), { usage: null }));
      const { usage } = (await readAnswer(provider, createRequest({ model }))).finish;
      assert.deepEqual([usage.estimated, usage.outputTokens], [true, 100]);
    },
  },
  createFaultSituation("400", errorStep(400, "Nonsense."), "bad_request"),
  createFaultSituation("401", errorStep(401, "No."), "authentication"),
  createFaultSituation("403", errorStep(403, "No."), "permission"),
  createFaultSituation("404", errorStep(404, "No such model."), "not_found"),
  createFaultSituation("408", errorStep(408, "Too slow."), "timeout"),
  createFaultSituation("413", errorStep(413, "Too large."), "context_length"),
  createFaultSituation("429 without retry-after", errorStep(429, "Slow down."), "rate_limit", ({ retryAfterMs }) =>
    assert.equal(retryAfterMs, undefined),
  ),
  createFaultSituation(
    "429 with retry-after",
    errorStep(429, "Slow down.", { "retry-after": "3" }),
    "rate_limit",
    ({ retryAfterMs }) => assert.equal(retryAfterMs, 3000),
  ),
  createFaultSituation("500", errorStep(500, "Oops."), "server", ({ retryable }) => assert.ok(retryable)),
  createFaultSituation("529", errorStep(529, "Busy."), "overloaded", ({ retryable }) => assert.ok(retryable)),
  createFaultSituation(
    "context length exceeded",
    errorStep(400, "prompt is too long: 210000 tokens > 200000 maximum"),
    "context_length",
  ),
  createFaultSituation(
    "HTML",
    { status: 502, body: "<html><title>Bad gateway</title></html>" },
    "server",
    ({ message }) => assert.match(message, /HTML page/),
  ),
  createFaultSituation(
    "HTML with status 200",
    { status: 200, body: "<html><title>Log in</title></html>" },
    "protocol",
    ({ message }) => assert.match(message, /HTML page.*"Log in"/),
  ),
  createFaultSituation("an empty error", { status: 500, body: "" }, "server"),
  createFaultSituation("an empty answer", { say: [{ cut: true }] }, "network"),
  createFaultSituation("a truncated answer", { say: [{ text: "half" }, { cut: true }] }, "network", ({ retryable }) =>
    assert.ok(retryable),
  ),
  {
    ...createFaultSituation("no finish reason", textStep("all", { finish: "none" }), "network", ({ message }) =>
      assert.match(message, /ended before it was finished/),
    ),
    exceptions: { openai: "`[DONE]` marks the end" },
  },
  createFaultSituation(
    "a malformed chunk",
    { say: [{ text: "a" }, { malformed: true }, { text: "b" }] },
    "server",
    ({ message }) => assert.match(message, /malformed chunk/),
  ),
  createFaultSituation(
    "an error within the stream",
    { say: [{ text: "a" }, { error: { message: "Overloaded", type: "overloaded_error" } }] },
    "overloaded",
    ({ message }) => assert.match(message, /Overloaded/),
  ),
  createFaultSituation(
    "an error as the first event",
    { say: [{ error: { message: "Overloaded", type: "overloaded_error" } }] },
    "overloaded",
    ({ message }) => assert.match(message, /Overloaded/),
  ),
  createFaultSituation("a reset before the first token", { say: [{ reset: true }] }, "network", ({ retryable }) =>
    assert.ok(retryable),
  ),
  createFaultSituation("a reset after the headers", { say: [{ open: true }, { reset: true }] }, "network"),
  createFaultSituation(
    "a reset after the first token",
    { say: [{ text: "a" }, { reset: true }] },
    "network",
    ({ status }) => assert.equal(status, undefined),
  ),
  {
    name: "a stalled stream, cancelled",
    async run({ server, provider, model }) {
      server.enqueue({ say: [{ text: "a" }, { stall: true }] });
      const controller = new AbortController();
      const reason = { isTestReason: true };
      const chunkTypes: string[] = [];
      await assert.rejects(
        (async () => {
          for await (const chunk of provider.stream(createRequest({ model }), controller.signal)) {
            chunkTypes.push(chunk.type);
            if (chunk.type === "text") controller.abort(reason);
          }
        })(),
        (error) => error === reason,
      );
      assert.deepEqual(chunkTypes, ["text"]);
      assert.equal(await server.requests.at(-1)!.isAborted, true);
    },
  },
  {
    name: "silence before the headers, cancelled",
    async run({ server, provider, model }) {
      server.enqueue({ delay: 60_000 });
      const controller = new AbortController();
      const nextRequest = server.waitForRequest(server.requests.length + 1);
      const answerPromise = readAnswer(provider, createRequest({ model }), controller.signal);
      void nextRequest.then(() => controller.abort("enough"));
      await assert.rejects(answerPromise, (error) => error === "enough");
    },
  },
  {
    name: "an echoed API key is redacted",
    async run(context) {
      const error = await expectFailure(context, [
        errorStep(401, `Incorrect API key provided: ${context.key}.\r\nBye.`),
      ]);
      assert.match(error.message, /^lab: 401: Incorrect API key provided: \[redacted\]\. Bye\b/);
    },
  },
];

/** The history and the other fields of a request, without parts that may change (cache marks). */
// Request bodies have four different shapes.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
function splitBody(body: any): { history: string; otherFields: string } {
  const bodyText = JSON.stringify(body, (key, value) => (key === "cache_control" ? undefined : value));
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  const bodyCopy = JSON.parse(bodyText) as any;
  const history = bodyCopy.messages ?? bodyCopy.input ?? bodyCopy.contents;
  for (const key of ["messages", "input", "contents"]) delete bodyCopy[key];
  for (const key of ["max_tokens", "max_output_tokens", "generationConfig"]) delete bodyCopy[key];
  return { history: JSON.stringify(history), otherFields: JSON.stringify(bodyCopy) };
}
