import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { hasCode, type ProviderError } from "gantry";
import { AiSdkProvider, type AiSdkProviderOptions } from "gantry/adapters/language-models";
import { errorStep, textStep, startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import {
  createRequest,
  assistantMessage,
  createModel,
  PDF,
  PNG,
  readTool,
  toolResultMessage,
  readAnswer,
  toolCallPart,
  userMessage,
  writeTool,
} from "../../helpers/model-requests.js";

const KEY = "sk-test-0123456789abcdefghij";

describe("the wire openai", () => {
  let server: FakeModelServer;
  const openProviders: AiSdkProvider[] = [];
  const createProvider = (options: Partial<AiSdkProviderOptions> = {}): AiSdkProvider => {
    const provider = new AiSdkProvider({
      name: "lab",
      driver: "openai",
      baseUrl: server.baseUrl,
      apiKey: KEY,
      ...options,
    });
    openProviders.push(provider);
    return provider;
  };
  // Index of the first request of the current test.
  let firstRequestIndex = 0;
  const readBodies = (): any[] => server.requests.slice(firstRequestIndex).map(({ body }) => body); // eslint-disable-line @typescript-eslint/no-explicit-any
  const catchProviderError = async (promise: Promise<unknown>): Promise<ProviderError> => {
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
    assert.equal(server.queuedCount, 0);
    firstRequestIndex = server.requests.length;
    server.dialect = {};
    await Promise.all(openProviders.splice(0).map((provider) => provider.close()));
  });
  after(() => server.close());

  it("streams text and reasoning in order, in separate blocks, and returns the usage", async () => {
    server.enqueue({
      say: [{ reasoning: ["Let me ", "think."] }, { text: ["Hel", "lo"] }, { reasoning: "More." }, { text: "!" }],
      usage: { input: 100, output: 40, cacheRead: 64, reasoning: 10 },
    });
    const { text, reasoning, chunks, finish } = await readAnswer(createProvider(), createRequest());
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
    await readAnswer(
      createProvider({ headers: { "x-team": "blue" } }),
      createRequest({ tools: [readTool, writeTool] }),
    );
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
    const { calls, chunks, finish } = await readAnswer(createProvider(), createRequest({ tools: [readTool] }));
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

  it("returns broken and non-object arguments unchanged, empty arguments as {}, and sends valid JSON back", async () => {
    server.enqueue({
      say: [
        { call: { id: "c1", name: "read", arguments: '{"path": "unterminated' } },
        { call: { id: "c2", name: "read", arguments: "" } },
        { call: { id: "c3", name: "read", arguments: "[1]" } },
      ],
    });
    const provider = createProvider();
    const { calls, message } = await readAnswer(provider, createRequest({ tools: [readTool] }));
    assert.deepEqual(
      calls.map(({ arguments: args }) => args),
      ['{"path": "unterminated', "{}", "[1]"],
    );
    const results = calls.map(({ id }) => toolResultMessage(id, "read", "not valid", true));
    await readAnswer(
      provider,
      createRequest({ tools: [readTool], messages: [userMessage("Hello"), message, ...results] }),
    );
    const sentArguments = readBodies()
      .at(-1)
      .messages[2].tool_calls.map((entry: { function: { arguments: string } }) => JSON.parse(entry.function.arguments));
    assert.deepEqual(sentArguments, [
      { invalid_arguments: '{"path": "unterminated' },
      {},
      { invalid_arguments: "[1]" },
    ]);
  });

  it("makes ids unique if two calls share one, and reports tool_calls for the finish reason stop", async () => {
    server.enqueue({
      say: [
        { call: { id: "same", name: "read", arguments: { path: "a" } } },
        { call: { id: "same", name: "read", arguments: { path: "b" } } },
      ],
      finish: "stop",
    });
    const { calls, finish } = await readAnswer(createProvider(), createRequest({ tools: [readTool] }));
    assert.equal(new Set(calls.map(({ id }) => id)).size, 2);
    assert.equal(finish.reason, "tool_calls");
  });

  it("sends a history that strict servers accept: short ids, merged user messages, no empty result", async () => {
    const longId = "toolu_vrtx_01" + "x".repeat(60);
    const dottedId = "functions.read:0";
    await readAnswer(
      createProvider(),
      createRequest({
        tools: [readTool],
        messages: [
          userMessage("One"),
          userMessage("Two"),
          assistantMessage(
            { type: "reasoning", text: "hm" },
            "",
            toolCallPart(longId, "read", { path: "a" }),
            toolCallPart(dottedId, "read", { path: "b" }),
          ),
          toolResultMessage(longId, "read", "A"),
          toolResultMessage(dottedId, "read", "", true),
          assistantMessage(""),
          userMessage(""),
        ],
      }),
    );
    const { messages } = readBodies().at(-1);
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
    const provider = createProvider();
    const history = [
      userMessage("One"),
      assistantMessage(toolCallPart("c1", "read", { path: "a" })),
      toolResultMessage("c1", "read", "A"),
      assistantMessage("Done."),
    ];
    await readAnswer(provider, createRequest({ tools: [readTool], messages: [...history, userMessage("Two")] }));
    await readAnswer(
      provider,
      createRequest({
        tools: [readTool],
        messages: [...history, userMessage("Two"), assistantMessage("Yes."), userMessage("Three")],
      }),
    );
    const [firstMessages, secondMessages] = readBodies().map((body) => JSON.stringify(body.messages));
    assert.ok(secondMessages!.startsWith(firstMessages!.slice(0, -1)));
    assert.deepEqual(readBodies()[0].tools, readBodies()[1].tools);
  });

  it("moves images of tool results into a user message after all results", async () => {
    await readAnswer(
      createProvider(),
      createRequest({
        model: createModel({ input: ["text", "image"] }),
        messages: [
          userMessage("Look"),
          assistantMessage(toolCallPart("c1", "read", { path: "a.png" }), toolCallPart("c2", "read", { path: "b" })),
          toolResultMessage("c1", "read", [{ type: "image", mediaType: "image/png", data: PNG }]),
          toolResultMessage("c2", "read", "B"),
        ],
      }),
    );
    const { messages } = readBodies().at(-1);
    assert.deepEqual(
      messages.map(({ role }: { role: string }) => role),
      ["system", "user", "assistant", "tool", "tool", "user"],
    );
    assert.equal(messages[3].content, "(see the next user message)");
    assert.equal(messages[5].content[1].image_url.url, `data:image/png;base64,${PNG}`);
  });

  it("sends a file by its actual type if the model accepts that type, otherwise a line with name and size", async () => {
    const createFilePart = (filename: string, data: string) => ({
      type: "file" as const,
      mediaType: "application/octet-stream",
      filename,
      data,
    });
    const zip = Buffer.from("PK\x03\x04 and more").toString("base64");
    const messages = [
      userMessage("See", createFilePart("shot.dat", PNG), createFilePart("doc", PDF), createFilePart("x.zip", zip)),
    ];
    const provider = createProvider();
    await readAnswer(provider, createRequest({ model: createModel({ input: ["text", "image", "pdf"] }), messages }));
    await readAnswer(provider, createRequest({ messages }));
    const [allInputsContent, textOnlyContent] = readBodies().map((body) => body.messages[1].content);
    assert.equal(allInputsContent[1].image_url.url, `data:image/png;base64,${PNG}`);
    assert.equal(allInputsContent[2].file.file_data, `data:application/pdf;base64,${PDF}`);
    assert.match(allInputsContent[3].text, /^\[x\.zip \(binary, 13 bytes\): not shown\]$/);
    assert.deepEqual(
      textOnlyContent.map(({ type }: { type: string }) => type),
      ["text", "text", "text", "text"],
    );
    assert.match(textOnlyContent[1].text, /^\[shot\.dat \(image\/png, \d+ bytes\): this model takes no images\]$/);
  });

  it("sends temperature, effort and an output limit that fits into the context window", async () => {
    const provider = createProvider();
    await readAnswer(
      provider,
      createRequest({ model: createModel({ maxOutput: 4000, contextWindow: 8000 }), temperature: 0.3, effort: "high" }),
    );
    // About 6,000 tokens, at three bytes a token.
    const longText = "x".repeat(3 * 6000);
    await readAnswer(
      provider,
      createRequest({
        model: createModel({ maxOutput: 4000, contextWindow: 8000 }),
        messages: [userMessage(longText)],
      }),
    );
    await readAnswer(provider, createRequest({ maxTokens: 50 }));
    const [firstBody, secondBody, thirdBody] = readBodies();
    assert.deepEqual([firstBody.temperature, firstBody.reasoning_effort, firstBody.max_tokens], [0.3, "high", 4000]);
    assert.ok(secondBody.max_tokens > 1000 && secondBody.max_tokens < 2000, String(secondBody.max_tokens));
    assert.equal(thirdBody.max_tokens, 50);
  });

  it("omits parameters after the model rejected them, and renames max_tokens to max_completion_tokens", async () => {
    server.enqueue(
      errorStep(400, {
        message:
          "Unsupported value: 'temperature' does not support 0.3 with this model. Only the default (1) value is supported.",
        code: "unsupported_value",
      }),
      errorStep(
        400,
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
      ),
      errorStep(400, "Unrecognized request argument supplied: reasoning_effort"),
    );
    const provider = createProvider();
    const request = createRequest({ model: createModel({ maxOutput: 900 }), temperature: 0.3, effort: "low" });
    assert.equal((await readAnswer(provider, request)).text, "OK.");
    await readAnswer(provider, request);
    assert.equal(readBodies().length, 5);
    for (const body of readBodies().slice(3)) {
      assert.deepEqual(
        [body.temperature, body.reasoning_effort, body.max_tokens, body.max_completion_tokens],
        [undefined, undefined, undefined, 900],
      );
    }
  });

  it("replaces a lone surrogate by U+FFFD and leaves other text unchanged", async () => {
    const text = "cut \ud83d | whole 😀 | literal \\ud83d";
    await readAnswer(createProvider(), createRequest({ messages: [userMessage(text)] }));
    assert.equal(readBodies().at(-1).messages[1].content, "cut \ufffd | whole 😀 | literal \\ud83d");
  });

  it("estimates usage and marks it as estimated if none or only zeros are reported", async () => {
    server.enqueue(
      { say: [{ text: "x".repeat(300) }], usage: null },
      { say: [{ text: "hi" }], usage: { input: 0, output: 0 } },
    );
    const provider = createProvider();
    const { usage } = (await readAnswer(provider, createRequest())).finish;
    assert.equal(usage.estimated, true);
    assert.equal(usage.outputTokens, 100);
    assert.ok(usage.inputTokens > 5 && usage.inputTokens < 50);
    assert.equal((await readAnswer(provider, createRequest())).finish.usage.estimated, true);
  });

  it("returns the finish reason of the model", async () => {
    const provider = createProvider();
    for (const [finish, reason] of [
      ["length", "length"],
      ["content_filter", "content_filter"],
      ["stop", "stop"],
    ] as const) {
      server.enqueue(textStep("x", { finish }));
      assert.equal((await readAnswer(provider, createRequest())).finish.reason, reason);
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
        server.enqueue(errorStep(status, "Something about it."));
        const error = await catchProviderError(readAnswer(createProvider(), createRequest()));
        assert.deepEqual([error.kind, error.status, error.retryable], [kind, status, isRetryable]);
        const text =
          status === 401 ? "Something about it; check api_key of the provider in the config" : "Something about it.";
        assert.equal(error.message, `lab: ${status}: ${text}`);
      });
    }

    it("reads the retry delay from retry-after in seconds or as a date and from retry-after-ms, and ignores other values", async () => {
      const provider = createProvider();
      const retryDate = new Date(Date.now() + 30_000).toUTCString();
      server.enqueue(
        errorStep(429, "slow", { "retry-after": "7" }),
        errorStep(429, "slow", { "retry-after": retryDate }),
        errorStep(503, "slow", { "retry-after-ms": "250", "retry-after": "1" }),
        errorStep(429, "slow", { "retry-after": "soon" }),
      );
      assert.equal((await catchProviderError(readAnswer(provider, createRequest()))).retryAfterMs, 7000);
      const retryAfterMs = (await catchProviderError(readAnswer(provider, createRequest()))).retryAfterMs!;
      assert.ok(retryAfterMs > 20_000 && retryAfterMs <= 30_000, String(retryAfterMs));
      assert.equal((await catchProviderError(readAnswer(provider, createRequest()))).retryAfterMs, 250);
      assert.equal((await catchProviderError(readAnswer(provider, createRequest()))).retryAfterMs, undefined);
    });

    it("maps a 429 for insufficient quota to permission, not retryable", async () => {
      server.enqueue(
        errorStep(429, {
          message: "You exceeded your current quota, please check your plan and billing details.",
          code: "insufficient_quota",
        }),
      );
      const error = await catchProviderError(readAnswer(createProvider(), createRequest()));
      assert.deepEqual([error.kind, error.retryable], ["permission", false]);
    });

    const contextLengthMessages = [
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
      const provider = createProvider();
      for (const message of contextLengthMessages) {
        server.enqueue(errorStep(400, message));
        assert.equal((await catchProviderError(readAnswer(provider, createRequest()))).kind, "context_length", message);
      }
      server.enqueue(
        errorStep(429, "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000. Please try again in 6s."),
      );
      assert.equal((await catchProviderError(readAnswer(provider, createRequest()))).kind, "rate_limit");
    });

    it("redacts keys and secret headers that the provider returns", async () => {
      const provider = createProvider({
        apiKey: "sk-wrong-abcdefghijklmnop",
        headers: { "x-secret": "hunter2hunter2" },
      });
      const error = await catchProviderError(readAnswer(provider, createRequest()));
      assert.equal(error.kind, "authentication");
      assert.equal(
        error.message,
        "lab: 401: Incorrect API key provided: [redacted]; check api_key of the provider in the config",
      );
      server.enqueue(
        errorStep(500, `bad: hunter2hunter2, ${KEY},\r\nBearer abcdefgh123 and AIzaSyA0123456789abcdefghijklmn`),
      );
      const secondError = await catchProviderError(
        readAnswer(createProvider({ headers: { "x-secret": "hunter2hunter2" } }), createRequest()),
      );
      assert.equal(secondError.message, "lab: 500: bad: [redacted], [redacted], Bearer [redacted] and [redacted]");
      assert.ok(!JSON.stringify(secondError, Object.getOwnPropertyNames(secondError)).includes("hunter2"));
    });

    it("limits messages to 520 characters and summarizes HTML pages", async () => {
      const provider = createProvider();
      server.enqueue(errorStep(400, "y".repeat(5000)), {
        status: 502,
        body: "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>",
      });
      assert.ok((await catchProviderError(readAnswer(provider, createRequest()))).message.length <= 520);
      const error = await catchProviderError(readAnswer(provider, createRequest()));
      assert.equal(
        error.message,
        'lab: 502: an HTML page instead of an API answer ("502 Bad Gateway"); check base_url and the network',
      );
      assert.equal(error.kind, "server");
    });

    it("reads the message from error bodies of different shapes", async () => {
      const provider = createProvider();
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
        assert.equal((await catchProviderError(readAnswer(provider, createRequest()))).message, `lab: 400: ${message}`);
      }
      server.enqueue({ status: 500, body: "" }, { status: 500, body: "upstream gone" });
      assert.match(
        (await catchProviderError(readAnswer(provider, createRequest()))).message,
        /^lab: 500: (internal error|Internal Server Error)$/,
      );
      assert.equal(
        (await catchProviderError(readAnswer(provider, createRequest()))).message,
        "lab: 500: upstream gone",
      );
    });

    it("an HTML page with status 200 is a protocol error with the page's title", async () => {
      server.enqueue({ status: 200, body: "<!doctype html><title>Sign in</title>" });
      const error = await catchProviderError(readAnswer(createProvider(), createRequest()));
      assert.equal(error.kind, "protocol");
      assert.match(error.message, /HTML page instead of an API answer \("Sign in"\)/);
    });

    it("reads a JSON answer instead of a stream, and an error body with status 200", async () => {
      const provider = createProvider();
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
      const { text, calls, finish } = await readAnswer(provider, createRequest());
      assert.deepEqual([text, calls.length, finish.usage.inputTokens], ["whole", 1, 5]);
      const error = await catchProviderError(readAnswer(provider, createRequest()));
      assert.deepEqual([error.kind, error.message], ["server", "lab: 500: model crashed"]);
    });

    it("a reset before or after the first token is a retryable network error without a status", async () => {
      const provider = createProvider();
      server.enqueue({ say: [{ reset: true }] });
      const earlyError = await catchProviderError(readAnswer(provider, createRequest()));
      assert.deepEqual([earlyError.kind, earlyError.status, earlyError.retryable], ["network", undefined, true]);
      server.enqueue({ say: [{ text: "par" }, { reset: true }] });
      const lateError = await catchProviderError(readAnswer(provider, createRequest()));
      assert.deepEqual([lateError.kind, lateError.status, lateError.retryable], ["network", undefined, true]);
      assert.match(lateError.message, /^lab: network: the connection to 127\.0\.0\.1:\d+ broke/);
    });

    it("a refused connection is a network error that asks whether the server is running", async () => {
      const closedServer = await startFakeModelServer();
      await closedServer.close();
      const error = await catchProviderError(
        readAnswer(createProvider({ baseUrl: closedServer.baseUrl }), createRequest()),
      );
      assert.equal(error.kind, "network");
      assert.match(error.message, /ECONNREFUSED\); is the server running\?$/);
    });

    it("a malformed chunk is a server error, even if valid chunks follow", async () => {
      server.enqueue({ say: [{ text: "a" }, { malformed: true }, { text: "b" }] });
      const error = await catchProviderError(readAnswer(createProvider(), createRequest()));
      assert.deepEqual([error.kind, error.message], ["server", "lab: server: a malformed chunk in the answer"]);
    });

    it("an error event in the stream has its own kind and message", async () => {
      const provider = createProvider();
      server.enqueue({
        say: [{ text: "a" }, { error: { message: "The engine is currently overloaded", type: "overloaded_error" } }],
      });
      const error = await catchProviderError(readAnswer(provider, createRequest()));
      assert.deepEqual(
        [error.kind, error.message],
        ["overloaded", "lab: overloaded: The engine is currently overloaded"],
      );
      server.enqueue({ say: [{ text: "a" }, { raw: 'data: {"error":"CUDA out of memory"}\n\n' }] });
      assert.match((await catchProviderError(readAnswer(provider, createRequest()))).message, /CUDA out of memory/);
    });

    it("a stream without a finish reason is a retryable network error, unless it ends with [DONE]", async () => {
      const provider = createProvider();
      server.enqueue({ say: [{ text: "half" }, { cut: true }] }, { say: [{ cut: true }] });
      for (let i = 0; i < 2; i++) {
        const error = await catchProviderError(readAnswer(provider, createRequest()));
        assert.deepEqual(
          [error.kind, error.retryable, error.message],
          ["network", true, "lab: network: the answer ended before it was finished"],
        );
      }
      server.enqueue(textStep("all", { finish: "none" }));
      const { text, finish } = await readAnswer(provider, createRequest());
      assert.deepEqual([text, finish.reason], ["all", null]);
    });

    it("yields the text that arrived before a connection reset", async () => {
      server.enqueue({ say: [{ text: "one" }, { text: "two" }, { reset: true }] });
      const receivedTexts: string[] = [];
      await catchProviderError(
        (async () => {
          for await (const chunk of createProvider().stream(createRequest(), new AbortController().signal))
            if (chunk.type === "text") receivedTexts.push(chunk.text);
        })(),
      );
      assert.deepEqual(receivedTexts, ["one", "two"]);
    });
  });

  describe("an abort", () => {
    it("rejects a stalled stream with the abort reason and closes the connection", async () => {
      server.enqueue({ say: [{ text: "a" }, { stall: true }] });
      const controller = new AbortController();
      const reason = { why: "custom" };
      const answer = (async () => {
        for await (const chunk of createProvider().stream(createRequest(), controller.signal))
          if (chunk.type === "text") setImmediate(() => controller.abort(reason));
      })();
      const request = await server.waitForRequest(firstRequestIndex + 1);
      await assert.rejects(answer, (error) => error === reason);
      assert.equal(await request.isAborted, true);
    });

    it("rejects with the abort reason before the headers, and sends no request if the signal is already aborted", async () => {
      server.enqueue({ delay: 60_000 });
      const controller = new AbortController();
      const answer = readAnswer(createProvider(), createRequest(), controller.signal);
      await server.waitForRequest(firstRequestIndex + 1);
      controller.abort("stop it");
      await assert.rejects(answer, (error) => error === "stop it");
      const requestCount = server.requests.length;
      await assert.rejects(
        readAnswer(createProvider(), createRequest(), AbortSignal.abort("early")),
        (error) => error === "early",
      );
      assert.equal(server.requests.length, requestCount);
    });

    it("leaving the stream loop closes the connection", async () => {
      server.enqueue({ say: [{ text: "a" }, { stall: true }] });
      for await (const chunk of createProvider().stream(createRequest(), new AbortController().signal)) {
        assert.equal(chunk.type, "text");
        break;
      }
      assert.equal(await server.requests.at(-1)!.isAborted, true);
    });
  });

  it("assembles 300 kB of tool arguments from 20,000 pieces", async () => {
    const content = "x".repeat(300_000);
    server.enqueue({ say: [{ call: { name: "write", arguments: { path: "big", content }, pieces: 20_000 } }] });
    const { calls, chunks } = await readAnswer(createProvider(), createRequest({ tools: [writeTool] }));
    assert.equal((JSON.parse(calls[0]!.arguments) as { content: string }).content, content);
    const argumentPieces = chunks.flatMap((chunk) => (chunk.type === "tool_input" ? [chunk.text] : []));
    assert.equal(argumentPieces.join(""), calls[0]!.arguments);
  });

  it("openrouter: sends reasoning_details with their signature back, and reads the reported cost", async () => {
    server.dialect = { message: ["reasoning_details"], body: ["usage", "reasoning"] };
    const provider = createProvider({ preset: "openrouter", name: "openrouter" });
    const toDetailEvent = (value: object): string =>
      `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "", reasoning: "x", reasoning_details: [value] } }] })}\n\n`;
    server.enqueue({
      say: [
        { open: true },
        { raw: toDetailEvent({ type: "reasoning.text", index: 0, text: "Let " }) },
        { raw: toDetailEvent({ type: "reasoning.text", index: 0, text: "me" }) },
        { raw: toDetailEvent({ type: "reasoning.text", index: 0, signature: "SIG" }) },
        { call: { id: "c1", name: "read", arguments: { path: "a" } } },
      ],
      usage: { input: 10, output: 5, cost: 0.0123 },
    });
    const { message, finish } = await readAnswer(
      provider,
      createRequest({ tools: [readTool], effort: "low", model: createModel({ id: "anthropic/claude-sonnet-4.5" }) }),
    );
    assert.equal(finish.usage.cost, 0.0123);
    await readAnswer(
      provider,
      createRequest({
        tools: [readTool],
        model: createModel({ id: "anthropic/claude-sonnet-4.5" }),
        messages: [userMessage("Hello"), message, toolResultMessage("c1", "read", "A")],
      }),
    );
    const [firstBody, secondBody] = readBodies();
    assert.deepEqual([firstBody.usage, firstBody.reasoning], [{ include: true }, { effort: "low" }]);
    assert.deepEqual(secondBody.messages[2].reasoning_details, [
      { type: "reasoning.text", index: 0, text: "Let me", signature: "SIG" },
    ]);
    assert.deepEqual(secondBody.messages[0].content[0].cache_control, { type: "ephemeral" });
  });
});
