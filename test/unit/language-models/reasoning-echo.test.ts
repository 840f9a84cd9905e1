import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { hasCode } from "gantry";
import type { ModelMessage } from "gantry/plugin";
import { AiSdkProvider, type AiSdkProviderOptions } from "gantry/adapters/language-models";
import {
  callStep,
  errorStep,
  textStep,
  startFakeModelServer,
  type ScriptedAnswer,
  type FakeModelServer,
} from "../../helpers/fake-model-server.js";
import {
  createRequest,
  assistantMessage,
  createModel,
  readTool,
  toolResultMessage,
  readAnswer,
  toolCallPart,
  userMessage,
} from "../../helpers/model-requests.js";

const MISSING_ERROR = "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2";
const UNSUPPORTED_ERROR =
  "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning_content' is unsupported)]";

const HISTORY: readonly ModelMessage[] = [
  userMessage("Hello"),
  assistantMessage({ type: "reasoning", text: "Of another model." }, toolCallPart("c1", "read", { path: "a" })),
  toolResultMessage("c1", "read", "A"),
  assistantMessage("It is A."),
  userMessage("And b?"),
];

describe("earlier reasoning on the wire openai", () => {
  let server: FakeModelServer;
  const providers: AiSdkProvider[] = [];
  const createProvider = (options: Partial<AiSdkProviderOptions> = {}): AiSdkProvider => {
    const provider = new AiSdkProvider({
      name: "lab",
      driver: "openai",
      baseUrl: server.baseUrl,
      apiKey: "k",
      ...options,
    });
    providers.push(provider);
    return provider;
  };
  const requestAnswer = async (provider: AiSdkProvider, id: string, messages = HISTORY): Promise<ModelMessage> =>
    (
      await readAnswer(
        provider,
        createRequest({ tools: [readTool], messages: [...messages], model: createModel({ id }) }),
      )
    ).message;
  /** Returns the sent reasoning of each assistant message, by request. Undefined if the message has no such field. */
  const readSentReasoning = (): (string | undefined)[][] =>
    server.requests.map(({ body }) =>
      (body.messages as { role: string; reasoning_content?: string }[])
        .filter(({ role }) => role === "assistant")
        .map((message) => message.reasoning_content),
    );
  /** Rejects a request unless each assistant message has reasoning. Like Kimi, treats an empty text as missing. */
  const requireReasoning: ScriptedAnswer = () =>
    readSentReasoning()
      .at(-1)!
      .some((text) => text === undefined || text === "")
      ? errorStep(400, MISSING_ERROR)
      : textStep("OK.");
  const rejectReasoning: ScriptedAnswer = () =>
    readSentReasoning()
      .at(-1)!
      .some((text) => text !== undefined)
      ? errorStep(400, UNSUPPORTED_ERROR)
      : textStep("OK.");

  before(async () => {
    // The server accepts the field. The scripted answers of a test require or reject it.
    server = await startFakeModelServer({ dialect: { message: ["reasoning_content"] } });
  });
  afterEach(async () => {
    assert.deepEqual(server.violations, []);
    await Promise.all(providers.splice(0).map((provider) => provider.close()));
    await server.close();
    server = await startFakeModelServer({ dialect: { message: ["reasoning_content"] } });
  });
  after(() => server.close());

  for (const [presetName, id] of [
    ["deepseek", "deepseek-chat"],
    ["moonshot", "kimi-latest"],
    ["openrouter", "deepseek/deepseek-v4-pro"],
    ["openrouter", "moonshotai/kimi-k2.6"],
    ["groq", "moonshotai/kimi-k2-thinking"],
    ["fireworks", "accounts/fireworks/models/kimi-k2p6"],
    ["fireworks", "accounts/fireworks/models/deepseek-v3p2"],
    ["ollama", "deepseek-v4:cloud"],
    ["litellm", "deepseek/deepseek-reasoner"],
    ["", "deepseek-v3-2-251201"],
    ["", "Kimi-K3"],
  ] as const)
    it(`is sent with each assistant message to ${id}${presetName === "" ? " at a custom base URL" : ` of ${presetName}`}`, async () => {
      server.dialect = { message: ["reasoning_content"], body: ["usage", "reasoning", "thinking"] };
      server.fallback = requireReasoning;
      await requestAnswer(createProvider(presetName === "" ? {} : { preset: presetName }), id);
      assert.deepEqual(readSentReasoning(), [[" ", " "]]);
    });

  it("is sent to the model and provider that created it; other models get a blank or no reasoning", async () => {
    server.enqueue({
      say: [{ reasoning: "Because." }, { call: { id: "c2", name: "read", arguments: { path: "b" } } }],
    });
    const provider = createProvider();
    const messages = [
      ...HISTORY,
      await requestAnswer(provider, "deepseek-v4-pro"),
      toolResultMessage("c2", "read", "B"),
    ];
    await requestAnswer(provider, "deepseek-v4-pro", messages);
    await requestAnswer(provider, "deepseek-v4-flash", messages);
    await requestAnswer(createProvider({ name: "other" }), "deepseek-v4-pro", messages);
    await requestAnswer(provider, "gpt-oss-120b", messages);
    assert.deepEqual(readSentReasoning().slice(1), [
      [" ", " ", "Because."],
      [" ", " ", " "],
      [" ", " ", " "],
      [undefined, undefined, undefined],
    ]);
  });

  for (const id of ["deepseek-v3-250324", "deepseek-v3", "deepseek-r1", "kimi-k2-0905", "kimi-k2-instruct", "m1"])
    it(`is not sent to ${id}`, async () => {
      await requestAnswer(createProvider(), id);
      assert.deepEqual(readSentReasoning(), [[undefined, undefined]]);
    });

  it("is sent after an error that reports it missing, and from then on for this model only", async () => {
    server.enqueue({
      say: [{ reasoning: "Because." }, { call: { id: "c2", name: "read", arguments: { path: "b" } } }],
    });
    const provider = createProvider();
    const callMessage = await requestAnswer(provider, "m1", [userMessage("Hello")]);
    server.fallback = requireReasoning;
    const messages = [userMessage("Hello"), callMessage, toolResultMessage("c2", "read", "B")];
    await requestAnswer(provider, "m1", messages);
    await requestAnswer(provider, "m1", messages);
    // The reasoning was stored before the model was known to require reasoning.
    assert.deepEqual(readSentReasoning().slice(1), [[undefined], ["Because."], ["Because."]]);
    server.fallback = textStep("OK.");
    await requestAnswer(provider, "m2", messages);
    assert.deepEqual(readSentReasoning().at(-1), [undefined]);
  });

  it("is sent after each of DeepSeek's two error messages", async () => {
    for (const message of [
      "The `reasoning_content` in the thinking mode must be passed back to the API.",
      "Missing `reasoning_content` field in the assistant message at message index 2",
    ]) {
      server.enqueue(errorStep(400, message));
      await requestAnswer(createProvider(), "m1");
    }
    assert.deepEqual(readSentReasoning(), [
      [undefined, undefined],
      [" ", " "],
      [undefined, undefined],
      [" ", " "],
    ]);
  });

  it("is omitted after an error that rejects it, and in the next request", async () => {
    server.fallback = rejectReasoning;
    const provider = createProvider({ preset: "groq" });
    await requestAnswer(provider, "moonshotai/kimi-k2-thinking");
    await requestAnswer(provider, "moonshotai/kimi-k2-thinking");
    const omittedField = [undefined, undefined];
    assert.deepEqual(readSentReasoning(), [[" ", " "], omittedField, omittedField]);
  });

  it("is sent or omitted again each time an error of the model requires the change", async () => {
    const provider = createProvider();
    for (const fallback of [requireReasoning, rejectReasoning, requireReasoning]) {
      server.fallback = fallback;
      await requestAnswer(provider, "m1");
    }
    const omittedField = [undefined, undefined];
    const blankField = [" ", " "];
    assert.deepEqual(readSentReasoning(), [
      omittedField,
      blankField,
      blankField,
      omittedField,
      omittedField,
      blankField,
    ]);
  });

  it("is sent and omitted once each if the server rejects both, and the request then fails", async () => {
    server.fallback = () =>
      readSentReasoning().at(-1)!.includes(undefined)
        ? errorStep(400, MISSING_ERROR)
        : errorStep(400, UNSUPPORTED_ERROR);
    const provider = createProvider();
    for (const requestCount of [2, 4]) {
      await assert.rejects(
        requestAnswer(provider, "m1"),
        (error) => hasCode(error, "provider") && error.kind === "bad_request",
      );
      assert.equal(server.requests.length, requestCount);
    }
    server.fallback = errorStep(400, MISSING_ERROR);
    await assert.rejects(requestAnswer(createProvider(), "kimi-k2.6"), /reasoning_content is missing/);
    assert.equal(server.requests.length, 5);
  });

  it("follows the option echoReasoning until the model rejects the requests", async () => {
    await requestAnswer(createProvider({ echoReasoning: true }), "m1");
    await requestAnswer(createProvider({ echoReasoning: false }), "kimi-k2.6");
    await requestAnswer(createProvider({ echoReasoning: false, preset: "moonshot" }), "kimi-k2.6");
    const omittedField = [undefined, undefined];
    assert.deepEqual(readSentReasoning(), [[" ", " "], omittedField, omittedField]);
    server.fallback = requireReasoning;
    await requestAnswer(createProvider({ echoReasoning: false }), "kimi-k2.6");
    assert.deepEqual(readSentReasoning().slice(3), [omittedField, [" ", " "]]);
  });

  it("is sent as reasoning_content and reasoning_details to OpenRouter if the model sent details", async () => {
    server.dialect = { message: ["reasoning_content", "reasoning_details"], body: ["usage", "reasoning"] };
    const detail = { type: "reasoning.text", index: 0, text: "Because." };
    const delta = { content: "", reasoning: "Because.", reasoning_details: [detail] };
    server.enqueue({
      say: [
        { raw: `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n` },
        { call: { id: "c2", name: "read", arguments: { path: "b" } } },
      ],
    });
    const provider = createProvider({ preset: "openrouter" });
    const callMessage = await requestAnswer(provider, "deepseek/deepseek-v4-pro", [userMessage("Hello")]);
    await requestAnswer(provider, "deepseek/deepseek-v4-pro", [
      userMessage("Hello"),
      callMessage,
      toolResultMessage("c2", "read", "B"),
    ]);
    const { reasoning_content: content, reasoning_details: details } = server.requests.at(-1)!.body.messages[2];
    assert.deepEqual([content, details], ["Because.", [detail]]);
  });

  it("is put back unchanged into the text for MiniMax", async () => {
    server.enqueue(callStep("read", { path: "a" }, { id: "c2" }), textStep("<think>\nBecause.\n</think>\n\nIt is A."));
    const provider = createProvider({ preset: "minimax" });
    const callMessage = await requestAnswer(provider, "MiniMax-M2", [userMessage("Hello")]);
    const messages = [userMessage("Hello"), callMessage, toolResultMessage("c2", "read", "A")];
    const answerMessage = await requestAnswer(provider, "MiniMax-M2", messages);
    await requestAnswer(provider, "MiniMax-M2", [...messages, answerMessage, userMessage("And b?")]);
    const contents = (server.requests.at(-1)!.body.messages as { role: string; content: string | null }[])
      .filter(({ role }) => role === "assistant")
      .map(({ content }) => content);
    assert.deepEqual(contents, [null, "<think>\nBecause.\n</think>\n\nIt is A."]);
  });
});
