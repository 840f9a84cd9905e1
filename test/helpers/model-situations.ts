/** Situations that every wire must handle. A test runs the list, and docs/models.md shows it as a table. */
import assert from "node:assert/strict";
import { hasCode, type ProviderError, type ProviderErrorKind } from "gantry";
import type { Model, ModelRequest } from "gantry/plugin";
import type { AiSdkProvider, WireName } from "gantry/adapters/language-models";
import { call, fail, say, type FakeModelServer, type FakeStep } from "./fake-model-server.js";
import {
  ask,
  assistant,
  PDF,
  PNG,
  readTool,
  result,
  take,
  toolCall,
  user,
  writeTool,
  type Taken,
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
  except?: Partial<Record<WireName, string>>;
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

async function failure(
  context: SituationContext,
  steps: FakeStep[],
  request: Partial<ModelRequest> = {},
): Promise<ProviderError> {
  context.server.enqueue(...steps);
  let taken: Taken;
  try {
    taken = await take(context.provider, ask({ model: context.model, ...request }));
  } catch (error) {
    assert.ok(hasCode(error, "provider"), String(error));
    assert.ok(error.message.startsWith("lab: "), error.message);
    assert.ok(!error.message.includes(context.key) && !/[\r\n]/.test(error.message), error.message);
    // The provider can be used after the error: the next request succeeds.
    assert.equal((await take(context.provider, ask({ model: context.model, ...request }))).text, "OK.");
    return error;
  }
  return assert.fail(`no error, but ${JSON.stringify(taken.finish)}`);
}

function fault(
  name: string,
  step: FakeStep,
  kind: ProviderErrorKind,
  inspect?: (error: ProviderError) => void,
): Situation {
  return {
    name,
    async run(context) {
      const error = await failure(context, [step]);
      assert.equal(error.kind, kind, error.message);
      inspect?.(error);
    },
  };
}

const last = (context: SituationContext) => context.server.requests.at(-1)!;

export const SITUATIONS: readonly Situation[] = [
  {
    name: "text and usage",
    async run({ server, provider, model, wire }) {
      server.enqueue(
        say(["Hel", "lo"], {
          usage: { input: 1000, output: 50, cacheRead: 600, ...(wire === "anthropic" ? { cacheWrite: 100 } : {}) },
        }),
      );
      const { text, finish } = await take(provider, ask({ model, tools: [readTool] }));
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
      const { reasoning, text, finish } = await take(provider, ask({ model, effort: "medium" }));
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
      const request = ask({ model, tools: [readTool], effort: "low" });
      const { calls, message, finish } = await take(provider, request);
      assert.deepEqual(JSON.parse(calls[0]!.arguments), { path: "a" });
      assert.equal(finish.reason, "tool_calls");
      const messages = [...request.messages, message, result(calls[0]!.id, "read", "contents")];
      assert.equal((await take(provider, { ...request, messages })).text, "OK.");
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
      const request = ask({ model, tools: [readTool, writeTool], effort: "low" });
      const { calls, message } = await take(provider, request);
      assert.deepEqual(
        calls.map(({ name }) => name),
        ["read", "write"],
      );
      // In the order of completion.
      const results = [result(calls[1]!.id, "write", "no such folder", true), result(calls[0]!.id, "read", "A")];
      assert.equal(
        (await take(provider, { ...request, messages: [...request.messages, message, ...results] })).text,
        "OK.",
      );
    },
  },
  {
    name: "effort levels",
    async run({ provider, model }) {
      for (const effort of ["minimal", "low", "medium", "high", ""] as const) {
        assert.equal((await take(provider, ask({ model, effort, temperature: 1 }))).text, "OK.");
      }
    },
  },
  {
    name: "images and PDFs of files",
    async run(context) {
      const file = (filename: string, data: string) => ({
        type: "file" as const,
        mediaType: "application/octet-stream",
        filename,
        data,
      });
      await take(
        context.provider,
        ask({ model: context.model, messages: [user("Look", file("a", PNG), file("b.pdf", PDF))] }),
      );
      const body = JSON.stringify(last(context).body);
      assert.ok(body.includes(PNG) && body.includes(PDF));
    },
  },
  {
    name: "images of tool results",
    async run(context) {
      const messages = [
        user("Look"),
        assistant(toolCall("c1", "read", { path: "a.png" }), toolCall("c2", "read", { path: "b" })),
        result("c1", "read", [{ type: "image", mediaType: "image/png", data: PNG }]),
        result("c2", "read", "B"),
      ];
      await take(context.provider, ask({ model: context.model, tools: [readTool], messages }));
      assert.ok(JSON.stringify(last(context).body).includes(PNG));
    },
  },
  {
    name: "a history of others: odd ids, broken arguments, empty and blank texts",
    async run({ provider, model }) {
      const odd = `functions.read:0|${"x".repeat(80)}`;
      const messages = [
        user("One"),
        user("  "),
        assistant(
          { type: "reasoning", text: "hm", opaque: { provider: "other", model: "m", data: { other: { x: 1 } } } },
          "",
          toolCall(odd, "read", "{broken"),
          toolCall("é", "read", "[]"),
        ),
        result(odd, "read", "", true),
        result("é", "read", "  "),
        assistant(" "),
        assistant("Fine."),
        user("cut \ud83d"),
      ];
      assert.equal((await take(provider, ask({ model, tools: [readTool], messages }))).text, "OK.");
    },
  },
  {
    name: "tool names that nobody takes in a history, arguments nested too deep",
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
      const deep = `{"path":${"[".repeat(50_000)}${"]".repeat(50_000)}}`;
      const calls = names.map((name, i) => toolCall(`c${i}`, name, i === 0 ? deep : { path: "a" }));
      const messages = [
        user("Go"),
        assistant(...calls),
        ...names.map((name, i) =>
          result(
            `c${i}`,
            name,
            i === 1 ? [{ type: "image", mediaType: "image/png", data: PNG }] : "no such tool",
            true,
          ),
        ),
      ];
      assert.equal((await take(provider, ask({ model, tools: [readTool], messages }))).text, "OK.");
      const bodyText = JSON.stringify(last(context).body);
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
      const { message } = await take(provider, ask({ model, effort: "low" }));
      const cut = { ...message, parts: message.parts.filter(({ type }) => type === "reasoning") };
      await take(provider, ask({ model, effort: "low", messages: [user("Hello"), cut, user("Go on")] }));
    },
  },
  {
    name: "a prefix that stays the same, byte by byte",
    async run(context) {
      const { server, provider, model } = context;
      server.enqueue({ say: [{ reasoning: "Hm." }, { call: { name: "read", arguments: { b: 1, a: 2 } } }] });
      const request = ask({ model, tools: [readTool], effort: "low" });
      const { calls, message } = await take(provider, request);
      const messages = [...request.messages, message, result(calls[0]!.id, "read", "A")];
      await take(provider, { ...request, messages });
      const second = strip(last(context).body);
      await take(provider, { ...request, messages: [...messages, assistant("Yes."), user("More")] });
      const third = strip(last(context).body);
      assert.ok(third.history.startsWith(second.history.slice(0, -1)));
      assert.equal(third.head, second.head);
    },
  },
  {
    name: "the model's own limit of an answer",
    async run(context) {
      await take(context.provider, ask({ model: { ...context.model, maxOutput: 3000 } }));
      assert.match(JSON.stringify(last(context).body), /"(max_tokens|max_output_tokens|maxOutputTokens)":3000\b/);
    },
  },
  {
    name: "why it stopped: length, content filter",
    async run({ server, provider, model }) {
      for (const [finish, reason] of [
        ["length", "length"],
        ["content_filter", "content_filter"],
      ] as const) {
        server.enqueue(say("x", { finish }));
        assert.equal((await take(provider, ask({ model }))).finish.reason, reason);
      }
    },
  },
  {
    name: "a refusal",
    async run({ server, provider, model, wire }) {
      server.enqueue({ say: [{ refusal: "I can't." }], finish: "refusal" });
      const { text, finish } = await take(provider, ask({ model }));
      assert.equal(text, "I can't.");
      assert.equal(finish.reason, wire === "openai" ? "stop" : "content_filter");
    },
  },
  {
    name: "a tool call with broken JSON",
    except: { google: "arguments are objects" },
    async run({ server, provider, model }) {
      server.enqueue(call("read", '{"path": "unterminated'));
      const request = ask({ model, tools: [readTool] });
      const { calls, message } = await take(provider, request);
      assert.equal(calls[0]!.arguments, '{"path": "unterminated');
      await take(provider, {
        ...request,
        messages: [...request.messages, message, result(calls[0]!.id, "read", "bad JSON", true)],
      });
    },
  },
  {
    name: "a call of an unknown tool, and one without arguments",
    async run({ server, provider, model }) {
      server.enqueue({
        say: [{ call: { name: "nothing", arguments: {} } }, { call: { name: "read", arguments: "" } }],
      });
      const request = ask({ model, tools: [readTool] });
      const { calls, message } = await take(provider, request);
      assert.deepEqual(
        calls.map(({ name, arguments: args }) => [name, args]),
        [
          ["nothing", "{}"],
          ["read", "{}"],
        ],
      );
      const results = calls.map(({ id, name }) => result(id, name, "no", true));
      await take(provider, { ...request, messages: [...request.messages, message, ...results] });
    },
  },
  {
    name: "300 kB of arguments",
    async run({ server, provider, model }) {
      const content = "x".repeat(300_000);
      server.enqueue({ say: [{ call: { name: "write", arguments: { path: "a", content }, pieces: 2000 } }] });
      const { calls } = await take(provider, ask({ model, tools: [writeTool] }));
      assert.equal((JSON.parse(calls[0]!.arguments) as { content: string }).content.length, 300_000);
    },
  },
  {
    name: "usage missing: estimated and marked",
    async run({ server, provider, model }) {
      server.enqueue(say("x".repeat(300), { usage: null }));
      const { usage } = (await take(provider, ask({ model }))).finish;
      assert.deepEqual([usage.estimated, usage.outputTokens], [true, 100]);
    },
  },
  fault("400", fail(400, "Nonsense."), "bad_request"),
  fault("401", fail(401, "No."), "authentication"),
  fault("403", fail(403, "No."), "permission"),
  fault("404", fail(404, "No such model."), "not_found"),
  fault("408", fail(408, "Too slow."), "timeout"),
  fault("413", fail(413, "Too large."), "context_length"),
  fault("429 without retry-after", fail(429, "Slow down."), "rate_limit", ({ retryAfterMs }) =>
    assert.equal(retryAfterMs, undefined),
  ),
  fault("429 with retry-after", fail(429, "Slow down.", { "retry-after": "3" }), "rate_limit", ({ retryAfterMs }) =>
    assert.equal(retryAfterMs, 3000),
  ),
  fault("500", fail(500, "Oops."), "server", ({ retryable }) => assert.ok(retryable)),
  fault("529", fail(529, "Busy."), "overloaded", ({ retryable }) => assert.ok(retryable)),
  fault("context length exceeded", fail(400, "prompt is too long: 210000 tokens > 200000 maximum"), "context_length"),
  fault("HTML", { status: 502, body: "<html><title>Bad gateway</title></html>" }, "server", ({ message }) =>
    assert.match(message, /HTML page/),
  ),
  fault(
    "HTML with status 200",
    { status: 200, body: "<html><title>Log in</title></html>" },
    "protocol",
    ({ message }) => assert.match(message, /HTML page.*"Log in"/),
  ),
  fault("an empty error", { status: 500, body: "" }, "server"),
  fault("an empty answer", { say: [{ cut: true }] }, "network"),
  fault("a truncated answer", { say: [{ text: "half" }, { cut: true }] }, "network", ({ retryable }) =>
    assert.ok(retryable),
  ),
  {
    ...fault("no finish", say("all", { finish: "none" }), "network", ({ message }) =>
      assert.match(message, /ended before it was finished/),
    ),
    except: { openai: "`[DONE]` says it" },
  },
  fault("a malformed chunk", { say: [{ text: "a" }, { malformed: true }, { text: "b" }] }, "server", ({ message }) =>
    assert.match(message, /malformed chunk/),
  ),
  fault(
    "an error in mid-stream",
    { say: [{ text: "a" }, { error: { message: "Overloaded", type: "overloaded_error" } }] },
    "overloaded",
    ({ message }) => assert.match(message, /Overloaded/),
  ),
  fault(
    "an error as the first event",
    { say: [{ error: { message: "Overloaded", type: "overloaded_error" } }] },
    "overloaded",
    ({ message }) => assert.match(message, /Overloaded/),
  ),
  fault("a reset before the first token", { say: [{ reset: true }] }, "network", ({ retryable }) =>
    assert.ok(retryable),
  ),
  fault("a reset behind the headers", { say: [{ open: true }, { reset: true }] }, "network"),
  fault("a reset behind the first token", { say: [{ text: "a" }, { reset: true }] }, "network", ({ status }) =>
    assert.equal(status, undefined),
  ),
  {
    name: "a stalled stream, cancelled",
    async run({ server, provider, model }) {
      server.enqueue({ say: [{ text: "a" }, { stall: true }] });
      const controller = new AbortController();
      const reason = { isTestReason: true };
      const seen: string[] = [];
      await assert.rejects(
        (async () => {
          for await (const chunk of provider.stream(ask({ model }), controller.signal)) {
            seen.push(chunk.type);
            if (chunk.type === "text") controller.abort(reason);
          }
        })(),
        (error) => error === reason,
      );
      assert.deepEqual(seen, ["text"]);
      assert.equal(await server.requests.at(-1)!.done, true);
    },
  },
  {
    name: "a silence before headers, cancelled",
    async run({ server, provider, model }) {
      server.enqueue({ delay: 60_000 });
      const controller = new AbortController();
      const next = server.request(server.requests.length + 1);
      const taken = take(provider, ask({ model }), controller.signal);
      void next.then(() => controller.abort("enough"));
      await assert.rejects(taken, (error) => error === "enough");
    },
  },
  {
    name: "a key that is echoed is not shown",
    async run(context) {
      const error = await failure(context, [fail(401, `Incorrect API key provided: ${context.key}.\r\nBye.`)]);
      assert.match(error.message, /^lab: 401: Incorrect API key provided: \[redacted\]\. Bye\.$/);
    },
  },
];

/** The history and the other fields of a request, without parts that may change (cache marks). */
// Request bodies have four different shapes.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
function strip(body: any): { history: string; head: string } {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  const clean = JSON.parse(JSON.stringify(body, (key, value) => (key === "cache_control" ? undefined : value))) as any;
  const history = clean.messages ?? clean.input ?? clean.contents;
  for (const key of ["messages", "input", "contents"]) delete clean[key];
  for (const key of ["max_tokens", "max_output_tokens", "generationConfig"]) delete clean[key];
  return { history: JSON.stringify(history), head: JSON.stringify(clean) };
}
