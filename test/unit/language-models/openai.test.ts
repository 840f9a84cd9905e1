import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { hasCode, type ProviderError } from "gantry";
import { AiSdkProvider, type AiSdkProviderOptions } from "gantry/adapters/language-models";
import { fail, say, startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import {
  ask,
  assistant,
  model,
  PDF,
  PNG,
  readTool,
  result,
  take,
  toolCall,
  user,
  writeTool,
} from "../../helpers/model-requests.js";

const KEY = "sk-test-0123456789abcdefghij";

describe("the wire openai", () => {
  let server: FakeModelServer;
  const open: AiSdkProvider[] = [];
  const make = (options: Partial<AiSdkProviderOptions> = {}): AiSdkProvider => {
    const provider = new AiSdkProvider({
      name: "lab",
      driver: "openai",
      baseUrl: server.baseUrl,
      apiKey: KEY,
      ...options,
    });
    open.push(provider);
    return provider;
  };
  // Index of the first request of the current test.
  let from = 0;
  const bodies = (): any[] => server.requests.slice(from).map(({ body }) => body); // eslint-disable-line @typescript-eslint/no-explicit-any
  const errorOf = async (promise: Promise<unknown>): Promise<ProviderError> => {
    try {
      await promise;
    } catch (error) {
      assert.ok(hasCode(error, "provider"), String(error));
      return error;
    }
    return assert.fail("nothing was thrown");
  };

  before(async () => {
    server = await startFakeModelServer({ apiKey: KEY });
  });
  afterEach(async () => {
    assert.deepEqual(server.violations, []);
    assert.equal(server.queued, 0);
    from = server.requests.length;
    server.dialect = {};
    await Promise.all(open.splice(0).map((provider) => provider.close()));
  });
  after(() => server.close());

  it("streams text and reasoning in order, in separate blocks, and returns the usage", async () => {
    server.enqueue({
      say: [{ reasoning: ["Let me ", "think."] }, { text: ["Hel", "lo"] }, { reasoning: "More." }, { text: "!" }],
      usage: { input: 100, output: 40, cacheRead: 64, reasoning: 10 },
    });
    const { text, reasoning, chunks, finish } = await take(make(), ask());
    assert.equal(text, "Hello!");
    assert.equal(reasoning, "Let me think.More.");
    const blocks = chunks.flatMap((chunk) =>
      chunk.type === "text" || chunk.type === "reasoning" ? [`${chunk.type} ${chunk.block} ${chunk.text}`] : [],
    );
    assert.deepEqual(blocks, [
      "reasoning b0 Let me ",
      "reasoning b0 think.",
      "text b1 Hel",
      "text b1 lo",
      "reasoning b2 More.",
      "text b3 !",
    ]);
    assert.equal(finish.reason, "stop");
    assert.deepEqual(
      { ...finish.usage, cost: undefined },
      {
        inputTokens: 100,
        outputTokens: 40,
        cacheReadTokens: 64,
        cacheWriteTokens: 0,
        reasoningTokens: 10,
        cost: undefined,
      },
    );
  });

  it("sends key, configured headers, system prompt, tools and include_usage, and no unset parameter", async () => {
    await take(make({ headers: { "x-team": "blue" } }), ask({ tools: [readTool, writeTool] }));
    const { headers, body, path } = server.requests.at(-1)!;
    assert.equal(path, "/v1/chat/completions");
    assert.equal(headers.authorization, `Bearer ${KEY}`);
    assert.equal(headers["x-team"], "blue");
    assert.equal(body.stream, true);
    assert.deepEqual(body.stream_options, { include_usage: true });
    assert.deepEqual(body.messages, [
      { role: "system", content: "You are a test." },
      { role: "user", content: "Hello" },
    ]);
    assert.deepEqual(
      body.tools.map((tool: { function: { name: string } }) => tool.function.name),
      ["read", "write"],
    );
    assert.deepEqual(body.tools[0].function.parameters, readTool.inputSchema);
    assert.equal(body.max_tokens, undefined);
    assert.equal(body.temperature, undefined);
    assert.equal(body.reasoning_effort, undefined);
    assert.equal(body.prompt_cache_key, undefined);
  });

  it("returns complete tool calls and streams their arguments, for two calls in one answer", async () => {
    server.enqueue({
      say: [
        { text: "Reading." },
        {
          calls: [
            { id: "a1", name: "read", arguments: { path: "a" } },
            { id: "a2", name: "read", arguments: { path: "b" } },
          ],
        },
      ],
    });
    const { calls, chunks, finish } = await take(make(), ask({ tools: [readTool] }));
    assert.deepEqual(
      calls.map(({ id, name, arguments: args }) => [id, name, args]),
      [
        ["a1", "read", '{"path":"a"}'],
        ["a2", "read", '{"path":"b"}'],
      ],
    );
    assert.ok(chunks.filter(({ type }) => type === "tool_input").length >= 6);
    assert.equal(finish.reason, "tool_calls");
  });

  it("returns broken and non-object arguments unchanged, empty ones as {}, and sends valid JSON back", async () => {
    server.enqueue({
      say: [
        { call: { id: "c1", name: "read", arguments: '{"path": "unterminated' } },
        { call: { id: "c2", name: "read", arguments: "" } },
        { call: { id: "c3", name: "read", arguments: "[1]" } },
      ],
    });
    const provider = make();
    const { calls, message } = await take(provider, ask({ tools: [readTool] }));
    assert.deepEqual(
      calls.map(({ arguments: args }) => args),
      ['{"path": "unterminated', "{}", "[1]"],
    );
    const results = calls.map(({ id }) => result(id, "read", "not valid", true));
    await take(provider, ask({ tools: [readTool], messages: [user("Hello"), message, ...results] }));
    const sent = bodies()
      .at(-1)
      .messages[2].tool_calls.map((entry: { function: { arguments: string } }) => JSON.parse(entry.function.arguments));
    assert.deepEqual(sent, [{ invalid_arguments: '{"path": "unterminated' }, {}, { invalid_arguments: "[1]" }]);
  });

  it("makes ids unique if two calls share one, and reports tool_calls for the finish reason stop", async () => {
    server.enqueue({
      say: [
        { call: { id: "same", name: "read", arguments: { path: "a" } } },
        { call: { id: "same", name: "read", arguments: { path: "b" } } },
      ],
      finish: "stop",
    });
    const { calls, finish } = await take(make(), ask({ tools: [readTool] }));
    assert.equal(new Set(calls.map(({ id }) => id)).size, 2);
    assert.equal(finish.reason, "tool_calls");
  });

  it("sends a history that strict servers accept: short ids, merged user messages, no empty result", async () => {
    const long = "toolu_vrtx_01" + "x".repeat(60);
    const odd = "functions.read:0";
    await take(
      make(),
      ask({
        tools: [readTool],
        messages: [
          user("One"),
          user("Two"),
          assistant(
            { type: "reasoning", text: "hm" },
            "",
            toolCall(long, "read", { path: "a" }),
            toolCall(odd, "read", { path: "b" }),
          ),
          result(long, "read", "A"),
          result(odd, "read", "", true),
          assistant(""),
          user(""),
        ],
      }),
    );
    const { messages } = bodies().at(-1);
    assert.deepEqual(
      messages.map(({ role }: { role: string }) => role),
      ["system", "user", "assistant", "tool", "tool", "user"],
    );
    assert.equal(messages[2].reasoning_content, undefined);
    assert.match(messages[2].tool_calls[0].id, /^call_[0-9a-f]{24}$/);
    assert.equal(messages[3].tool_call_id, messages[2].tool_calls[0].id);
    assert.equal(messages[4].content, "(no output)");
  });

  it("sends the earlier messages and tools byte for byte as in the previous call", async () => {
    const provider = make();
    const history = [
      user("One"),
      assistant(toolCall("c1", "read", { path: "a" })),
      result("c1", "read", "A"),
      assistant("Done."),
    ];
    await take(provider, ask({ tools: [readTool], messages: [...history, user("Two")] }));
    await take(
      provider,
      ask({ tools: [readTool], messages: [...history, user("Two"), assistant("Yes."), user("Three")] }),
    );
    const [first, second] = bodies().map((body) => JSON.stringify(body.messages));
    assert.ok(second!.startsWith(first!.slice(0, -1)));
    assert.deepEqual(bodies()[0].tools, bodies()[1].tools);
  });

  it("moves images of tool results into a user message after all results", async () => {
    await take(
      make(),
      ask({
        model: model({ input: ["text", "image"] }),
        messages: [
          user("Look"),
          assistant(toolCall("c1", "read", { path: "a.png" }), toolCall("c2", "read", { path: "b" })),
          result("c1", "read", [{ type: "image", mediaType: "image/png", data: PNG }]),
          result("c2", "read", "B"),
        ],
      }),
    );
    const { messages } = bodies().at(-1);
    assert.deepEqual(
      messages.map(({ role }: { role: string }) => role),
      ["system", "user", "assistant", "tool", "tool", "user"],
    );
    assert.equal(messages[3].content, "(see the next user message)");
    assert.equal(messages[5].content[1].image_url.url, `data:image/png;base64,${PNG}`);
  });

  it("sends a file by its actual type if the model accepts that, otherwise a line with name and size", async () => {
    const file = (filename: string, data: string) => ({
      type: "file" as const,
      mediaType: "application/octet-stream",
      filename,
      data,
    });
    const zip = Buffer.from("PK\x03\x04 and more").toString("base64");
    const messages = [user("See", file("shot.dat", PNG), file("doc", PDF), file("x.zip", zip))];
    const provider = make();
    await take(provider, ask({ model: model({ input: ["text", "image", "pdf"] }), messages }));
    await take(provider, ask({ messages }));
    const [full, plain] = bodies().map((body) => body.messages[1].content);
    assert.equal(full[1].image_url.url, `data:image/png;base64,${PNG}`);
    assert.equal(full[2].file.file_data, `data:application/pdf;base64,${PDF}`);
    assert.match(full[3].text, /^\[x\.zip \(binary, 13 bytes\): not shown\]$/);
    assert.deepEqual(
      plain.map(({ type }: { type: string }) => type),
      ["text", "text", "text", "text"],
    );
    assert.match(plain[1].text, /^\[shot\.dat \(image\/png, \d+ bytes\): this model takes no images\]$/);
  });

  it("sends temperature, effort and an output limit that fits into the context window", async () => {
    const provider = make();
    await take(
      provider,
      ask({ model: model({ maxOutput: 4000, contextWindow: 8000 }), temperature: 0.3, effort: "high" }),
    );
    const long = "x".repeat(3 * 6000);
    await take(provider, ask({ model: model({ maxOutput: 4000, contextWindow: 8000 }), messages: [user(long)] }));
    await take(provider, ask({ maxTokens: 50 }));
    const [first, second, third] = bodies();
    assert.deepEqual([first.temperature, first.reasoning_effort, first.max_tokens], [0.3, "high", 4000]);
    assert.ok(second.max_tokens > 1000 && second.max_tokens < 2000, String(second.max_tokens));
    assert.equal(third.max_tokens, 50);
  });

  it("omits parameters after the model rejected them, and renames max_tokens to max_completion_tokens", async () => {
    server.enqueue(
      fail(400, {
        message:
          "Unsupported value: 'temperature' does not support 0.3 with this model. Only the default (1) value is supported.",
        code: "unsupported_value",
      }),
      fail(
        400,
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
      ),
      fail(400, "Unrecognized request argument supplied: reasoning_effort"),
    );
    const provider = make();
    const request = ask({ model: model({ maxOutput: 900 }), temperature: 0.3, effort: "low" });
    assert.equal((await take(provider, request)).text, "OK.");
    await take(provider, request);
    assert.equal(bodies().length, 5);
    for (const body of bodies().slice(3)) {
      assert.deepEqual(
        [body.temperature, body.reasoning_effort, body.max_tokens, body.max_completion_tokens],
        [undefined, undefined, undefined, 900],
      );
    }
  });

  it("replaces a lone surrogate by U+FFFD and leaves other text unchanged", async () => {
    const text = "cut \ud83d | whole 😀 | literal \\ud83d";
    await take(make(), ask({ messages: [user(text)] }));
    assert.equal(bodies().at(-1).messages[1].content, "cut \ufffd | whole 😀 | literal \\ud83d");
  });

  it("estimates usage and marks it as estimated if none or only zeros are reported", async () => {
    server.enqueue(
      { say: [{ text: "x".repeat(300) }], usage: null },
      { say: [{ text: "hi" }], usage: { input: 0, output: 0 } },
    );
    const provider = make();
    const { usage } = (await take(provider, ask())).finish;
    assert.equal(usage.estimated, true);
    assert.equal(usage.outputTokens, 100);
    assert.ok(usage.inputTokens > 5 && usage.inputTokens < 50);
    assert.equal((await take(provider, ask())).finish.usage.estimated, true);
  });

  it("returns the finish reason of the model", async () => {
    const provider = make();
    for (const [finish, reason] of [
      ["length", "length"],
      ["content_filter", "content_filter"],
      ["stop", "stop"],
    ] as const) {
      server.enqueue(say("x", { finish }));
      assert.equal((await take(provider, ask())).finish.reason, reason);
    }
  });

  describe("errors", () => {
    const statuses = [
      [400, "bad_request", false],
      [401, "authentication", false],
      [402, "permission", false],
      [403, "permission", false],
      [404, "not_found", false],
      [408, "timeout", true],
      [413, "context_length", false],
      [422, "bad_request", false],
      [429, "rate_limit", true],
      [500, "server", true],
      [502, "server", true],
      [503, "overloaded", true],
      [529, "overloaded", true],
    ] as const;
    for (const [status, kind, isRetryable] of statuses) {
      it(`maps status ${status} to ${kind}, ${isRetryable ? "retryable" : "not retryable"}`, async () => {
        server.enqueue(fail(status, "Something about it."));
        const error = await errorOf(take(make(), ask()));
        assert.deepEqual([error.kind, error.status, error.retryable], [kind, status, isRetryable]);
        assert.equal(error.message, `lab: ${status}: Something about it.`);
      });
    }

    it("reads the wait from retry-after in seconds or as a date and from retry-after-ms, and ignores other values", async () => {
      const provider = make();
      const date = new Date(Date.now() + 30_000).toUTCString();
      server.enqueue(
        fail(429, "slow", { "retry-after": "7" }),
        fail(429, "slow", { "retry-after": date }),
        fail(503, "slow", { "retry-after-ms": "250", "retry-after": "1" }),
        fail(429, "slow", { "retry-after": "soon" }),
      );
      assert.equal((await errorOf(take(provider, ask()))).retryAfterMs, 7000);
      const wait = (await errorOf(take(provider, ask()))).retryAfterMs!;
      assert.ok(wait > 20_000 && wait <= 30_000, String(wait));
      assert.equal((await errorOf(take(provider, ask()))).retryAfterMs, 250);
      assert.equal((await errorOf(take(provider, ask()))).retryAfterMs, undefined);
    });

    it("maps a 429 for insufficient quota to permission, not retryable", async () => {
      server.enqueue(
        fail(429, {
          message: "You exceeded your current quota, please check your plan and billing details.",
          code: "insufficient_quota",
        }),
      );
      const error = await errorOf(take(make(), ask()));
      assert.deepEqual([error.kind, error.retryable], ["permission", false]);
    });

    const tooLong = [
      "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
      "prompt is too long: 210000 tokens > 200000 maximum",
      "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
      "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
      "the request exceeds the available context size. try increasing the context size or enable context shift",
      "Please reduce the length of the messages or completion.",
      "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
      "Your request exceeded model token limit: 131072",
      "Trying to keep the first 5000 tokens when context the overflows.",
      "This endpoint's maximum context length is 131072 tokens.",
    ];
    it("recognizes context_length in the message of each provider, and not in a token rate limit", async () => {
      const provider = make();
      for (const message of tooLong) {
        server.enqueue(fail(400, message));
        assert.equal((await errorOf(take(provider, ask()))).kind, "context_length", message);
      }
      server.enqueue(
        fail(429, "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000. Please try again in 6s."),
      );
      assert.equal((await errorOf(take(provider, ask()))).kind, "rate_limit");
    });

    it("redacts keys and secret headers that the provider returns", async () => {
      const provider = make({ apiKey: "sk-wrong-abcdefghijklmnop", headers: { "x-secret": "hunter2hunter2" } });
      const error = await errorOf(take(provider, ask()));
      assert.equal(error.kind, "authentication");
      assert.equal(error.message, "lab: 401: Incorrect API key provided: [redacted].");
      server.enqueue(
        fail(500, `bad: hunter2hunter2, ${KEY},\r\nBearer abcdefgh123 and AIzaSyA0123456789abcdefghijklmn`),
      );
      const second = await errorOf(take(make({ headers: { "x-secret": "hunter2hunter2" } }), ask()));
      assert.equal(second.message, "lab: 500: bad: [redacted], [redacted], Bearer [redacted] and [redacted]");
      assert.ok(!JSON.stringify(second, Object.getOwnPropertyNames(second)).includes("hunter2"));
    });

    it("limits messages to 520 characters and summarizes HTML pages", async () => {
      const provider = make();
      server.enqueue(fail(400, "y".repeat(5000)), {
        status: 502,
        body: "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>",
      });
      assert.ok((await errorOf(take(provider, ask()))).message.length <= 520);
      const error = await errorOf(take(provider, ask()));
      assert.equal(
        error.message,
        'lab: 502: an HTML page instead of an API answer ("502 Bad Gateway"); check base_url and the network',
      );
      assert.equal(error.kind, "server");
    });

    it("reads the message from error bodies of different shapes", async () => {
      const provider = make();
      for (const [body, message] of [
        [{ detail: "no such thing" }, "no such thing"],
        [{ detail: [{ loc: ["body", "x"], msg: "field required" }] }, "body x field required"],
        [{ error: "plain" }, "plain"],
        [{ message: "top" }, "top"],
        [
          { error: { message: "Provider returned error", metadata: { raw: '{"error":{"message":"inner"}}' } } },
          "Provider returned error: inner",
        ],
      ] as const) {
        server.enqueue({ status: 400, body });
        assert.equal((await errorOf(take(provider, ask()))).message, `lab: 400: ${message}`);
      }
      server.enqueue({ status: 500, body: "" }, { status: 500, body: "upstream gone" });
      assert.match(
        (await errorOf(take(provider, ask()))).message,
        /^lab: 500: (internal error|Internal Server Error)$/,
      );
      assert.equal((await errorOf(take(provider, ask()))).message, "lab: 500: upstream gone");
    });

    it("an HTML page with status 200 is a protocol error with the page's title", async () => {
      server.enqueue({ status: 200, body: "<!doctype html><title>Sign in</title>" });
      const error = await errorOf(take(make(), ask()));
      assert.equal(error.kind, "protocol");
      assert.match(error.message, /HTML page instead of an API answer \("Sign in"\)/);
    });

    it("reads a JSON answer instead of a stream, and an error body with status 200", async () => {
      const provider = make();
      server.enqueue(
        {
          status: 200,
          body: {
            choices: [
              {
                message: {
                  role: "assistant",
                  content: "whole",
                  tool_calls: [{ id: "c", type: "function", function: { name: "read", arguments: "{}" } }],
                },
                finish_reason: "tool_calls",
              },
            ],
            usage: { prompt_tokens: 5, completion_tokens: 2 },
          },
        },
        { status: 200, body: { error: { message: "model crashed", code: 500 } } },
      );
      const { text, calls, finish } = await take(provider, ask());
      assert.deepEqual([text, calls.length, finish.usage.inputTokens], ["whole", 1, 5]);
      const error = await errorOf(take(provider, ask()));
      assert.deepEqual([error.kind, error.message], ["server", "lab: 500: model crashed"]);
    });

    it("a reset before or after the first token is a retryable network error without a status", async () => {
      const provider = make();
      server.enqueue({ say: [{ reset: true }] });
      const early = await errorOf(take(provider, ask()));
      assert.deepEqual([early.kind, early.status, early.retryable], ["network", undefined, true]);
      server.enqueue({ say: [{ text: "par" }, { reset: true }] });
      const late = await errorOf(take(provider, ask()));
      assert.deepEqual([late.kind, late.status, late.retryable], ["network", undefined, true]);
      assert.match(late.message, /^lab: network: the connection to 127\.0\.0\.1:\d+ broke/);
    });

    it("a refused connection is a network error that asks whether the server is running", async () => {
      const gone = await startFakeModelServer();
      await gone.close();
      const error = await errorOf(take(make({ baseUrl: gone.baseUrl }), ask()));
      assert.equal(error.kind, "network");
      assert.match(error.message, /ECONNREFUSED\); is the server running\?$/);
    });

    it("a malformed chunk is a server error, even if valid chunks follow", async () => {
      server.enqueue({ say: [{ text: "a" }, { malformed: true }, { text: "b" }] });
      const error = await errorOf(take(make(), ask()));
      assert.deepEqual([error.kind, error.message], ["server", "lab: server: a malformed chunk in the answer"]);
    });

    it("an error event in the stream has its own kind and message", async () => {
      const provider = make();
      server.enqueue({
        say: [{ text: "a" }, { error: { message: "The engine is currently overloaded", type: "overloaded_error" } }],
      });
      const error = await errorOf(take(provider, ask()));
      assert.deepEqual(
        [error.kind, error.message],
        ["overloaded", "lab: overloaded: The engine is currently overloaded"],
      );
      server.enqueue({ say: [{ text: "a" }, { raw: 'data: {"error":"CUDA out of memory"}\n\n' }] });
      assert.match((await errorOf(take(provider, ask()))).message, /CUDA out of memory/);
    });

    it("a stream without a finish is a retryable network error, unless it ends with [DONE]", async () => {
      const provider = make();
      server.enqueue({ say: [{ text: "half" }, { cut: true }] }, { say: [{ cut: true }] });
      for (let i = 0; i < 2; i++) {
        const error = await errorOf(take(provider, ask()));
        assert.deepEqual(
          [error.kind, error.retryable, error.message],
          ["network", true, "lab: network: the answer ended before it was finished"],
        );
      }
      server.enqueue(say("all", { finish: "none" }));
      const { text, finish } = await take(provider, ask());
      assert.deepEqual([text, finish.reason], ["all", null]);
    });

    it("yields the text that arrived before a connection reset", async () => {
      server.enqueue({ say: [{ text: "one" }, { text: "two" }, { reset: true }] });
      const seen: string[] = [];
      await errorOf(
        (async () => {
          for await (const chunk of make().stream(ask(), new AbortController().signal))
            if (chunk.type === "text") seen.push(chunk.text);
        })(),
      );
      assert.deepEqual(seen, ["one", "two"]);
    });
  });

  describe("an abort", () => {
    it("rejects a stalled stream with the abort reason and closes the connection", async () => {
      server.enqueue({ say: [{ text: "a" }, { stall: true }] });
      const controller = new AbortController();
      const reason = { why: "custom" };
      const seen = (async () => {
        for await (const chunk of make().stream(ask(), controller.signal))
          if (chunk.type === "text") setImmediate(() => controller.abort(reason));
      })();
      const request = await server.request(from + 1);
      await assert.rejects(seen, (error) => error === reason);
      assert.equal(await request.done, true);
    });

    it("rejects with the abort reason before the headers, and sends no request if it came earlier", async () => {
      server.enqueue({ delay: 60_000 });
      const controller = new AbortController();
      const seen = take(make(), ask(), controller.signal);
      await server.request(from + 1);
      controller.abort("stop it");
      await assert.rejects(seen, (error) => error === "stop it");
      const before = server.requests.length;
      await assert.rejects(take(make(), ask(), AbortSignal.abort("early")), (error) => error === "early");
      assert.equal(server.requests.length, before);
    });

    it("leaving the stream loop closes the connection", async () => {
      server.enqueue({ say: [{ text: "a" }, { stall: true }] });
      for await (const chunk of make().stream(ask(), new AbortController().signal)) {
        assert.equal(chunk.type, "text");
        break;
      }
      assert.equal(await server.requests.at(-1)!.done, true);
    });
  });

  it("assembles 300 kB of tool arguments from 20,000 pieces", async () => {
    const content = "x".repeat(300_000);
    server.enqueue({ say: [{ call: { name: "write", arguments: { path: "big", content }, pieces: 20_000 } }] });
    const { calls, chunks } = await take(make(), ask({ tools: [writeTool] }));
    assert.equal((JSON.parse(calls[0]!.arguments) as { content: string }).content, content);
    const arrived = chunks.flatMap((chunk) => (chunk.type === "tool_input" ? [chunk.text] : []));
    assert.equal(arrived.join(""), calls[0]!.arguments);
  });

  it("openrouter: sends reasoning_details with their signature back, and reads the reported cost", async () => {
    server.dialect = { message: ["reasoning_details"], body: ["usage", "reasoning"] };
    const provider = make({ preset: "openrouter", name: "openrouter" });
    const detail = (value: object): string =>
      `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "", reasoning: "x", reasoning_details: [value] } }] })}\n\n`;
    server.enqueue({
      say: [
        { open: true },
        { raw: detail({ type: "reasoning.text", index: 0, text: "Let " }) },
        { raw: detail({ type: "reasoning.text", index: 0, text: "me" }) },
        { raw: detail({ type: "reasoning.text", index: 0, signature: "SIG" }) },
        { call: { id: "c1", name: "read", arguments: { path: "a" } } },
      ],
      usage: { input: 10, output: 5, cost: 0.0123 },
    });
    const { message, finish } = await take(
      provider,
      ask({ tools: [readTool], effort: "low", model: model({ id: "anthropic/claude-sonnet-4.5" }) }),
    );
    assert.equal(finish.usage.cost, 0.0123);
    await take(
      provider,
      ask({
        tools: [readTool],
        model: model({ id: "anthropic/claude-sonnet-4.5" }),
        messages: [user("Hello"), message, result("c1", "read", "A")],
      }),
    );
    const [first, second] = bodies();
    assert.deepEqual([first.usage, first.reasoning], [{ include: true }, { effort: "low" }]);
    assert.deepEqual(second.messages[2].reasoning_details, [
      { type: "reasoning.text", index: 0, text: "Let me", signature: "SIG" },
    ]);
    assert.deepEqual(second.messages[0].content[0].cache_control, { type: "ephemeral" });
  });
});
