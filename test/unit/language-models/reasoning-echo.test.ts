import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { hasCode } from "gantry";
import type { ModelMessage } from "gantry/plugin";
import { AiSdkProvider, type AiSdkProviderOptions } from "gantry/adapters/language-models";
import {
  call,
  fail,
  say,
  startFakeModelServer,
  type Answer,
  type FakeModelServer,
} from "../../helpers/fake-model-server.js";
import { ask, assistant, model, readTool, result, take, toolCall, user } from "../../helpers/model-requests.js";

const MISSING = "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2";
const UNSUPPORTED =
  "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning_content' is unsupported)]";

const HISTORY: readonly ModelMessage[] = [
  user("Hello"),
  assistant({ type: "reasoning", text: "Of another model." }, toolCall("c1", "read", { path: "a" })),
  result("c1", "read", "A"),
  assistant("It is A."),
  user("And b?"),
];

describe("earlier reasoning on the wire openai", () => {
  let server: FakeModelServer;
  const providers: AiSdkProvider[] = [];
  const make = (options: Partial<AiSdkProviderOptions> = {}): AiSdkProvider => {
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
  const answers = async (provider: AiSdkProvider, id: string, messages = HISTORY): Promise<ModelMessage> =>
    (await take(provider, ask({ tools: [readTool], messages: [...messages], model: model({ id }) }))).message;
  /** The reasoning of each assistant message, by request. Undefined: the message has no such field. */
  const echoes = (): (string | undefined)[][] =>
    server.requests.map(({ body }) =>
      (body.messages as { role: string; reasoning_content?: string }[])
        .filter(({ role }) => role === "assistant")
        .map((message) => message.reasoning_content),
    );
  /** A host that requires reasoning in each assistant message. Kimi treats an empty text as missing. */
  const requireReasoning: Answer = () =>
    echoes()
      .at(-1)!
      .some((text) => text === undefined || text === "")
      ? fail(400, MISSING)
      : say("OK.");
  const rejectReasoning: Answer = () =>
    echoes()
      .at(-1)!
      .some((text) => text !== undefined)
      ? fail(400, UNSUPPORTED)
      : say("OK.");

  before(async () => {
    // Each test has its own rules about the field.
    server = await startFakeModelServer({ dialect: { message: ["reasoning_content"] } });
  });
  afterEach(async () => {
    assert.deepEqual(server.violations, []);
    await Promise.all(providers.splice(0).map((provider) => provider.close()));
    await server.close();
    server = await startFakeModelServer({ dialect: { message: ["reasoning_content"] } });
  });
  after(() => server.close());

  for (const [host, id] of [
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
    it(`is sent with each assistant message to ${id}${host === "" ? " at a custom base URL" : ` of ${host}`}`, async () => {
      server.dialect = { message: ["reasoning_content"], body: ["usage", "reasoning", "thinking"] };
      server.fallback = requireReasoning;
      await answers(make(host === "" ? {} : { preset: host }), id);
      assert.deepEqual(echoes(), [[" ", " "]]);
    });

  it("is sent to the model and provider that made it; others get a blank or no reasoning", async () => {
    server.enqueue({
      say: [{ reasoning: "Because." }, { call: { id: "c2", name: "read", arguments: { path: "b" } } }],
    });
    const provider = make();
    const messages = [...HISTORY, await answers(provider, "deepseek-v4-pro"), result("c2", "read", "B")];
    await answers(provider, "deepseek-v4-pro", messages);
    await answers(provider, "deepseek-v4-flash", messages);
    await answers(make({ name: "other" }), "deepseek-v4-pro", messages);
    await answers(provider, "gpt-oss-120b", messages);
    assert.deepEqual(echoes().slice(1), [
      [" ", " ", "Because."],
      [" ", " ", " "],
      [" ", " ", " "],
      [undefined, undefined, undefined],
    ]);
  });

  for (const id of ["deepseek-v3-250324", "deepseek-v3", "deepseek-r1", "kimi-k2-0905", "kimi-k2-instruct", "m1"])
    it(`is not sent to ${id}`, async () => {
      await answers(make(), id);
      assert.deepEqual(echoes(), [[undefined, undefined]]);
    });

  it("is sent after an error that reports it missing, and from then on for this model only", async () => {
    server.enqueue({
      say: [{ reasoning: "Because." }, { call: { id: "c2", name: "read", arguments: { path: "b" } } }],
    });
    const provider = make();
    const called = await answers(provider, "m1", [user("Hello")]);
    server.fallback = requireReasoning;
    const messages = [user("Hello"), called, result("c2", "read", "B")];
    await answers(provider, "m1", messages);
    await answers(provider, "m1", messages);
    // The reasoning was stored before anything was known about the model.
    assert.deepEqual(echoes().slice(1), [[undefined], ["Because."], ["Because."]]);
    server.fallback = say("OK.");
    await answers(provider, "m2", messages);
    assert.deepEqual(echoes().at(-1), [undefined]);
  });

  it("is sent after each of DeepSeek's two error messages", async () => {
    for (const message of [
      "The `reasoning_content` in the thinking mode must be passed back to the API.",
      "Missing `reasoning_content` field in the assistant message at message index 2",
    ]) {
      server.enqueue(fail(400, message));
      await answers(make(), "m1");
    }
    assert.deepEqual(echoes(), [
      [undefined, undefined],
      [" ", " "],
      [undefined, undefined],
      [" ", " "],
    ]);
  });

  it("is omitted after an error that rejects it, and in the next request", async () => {
    server.fallback = rejectReasoning;
    const provider = make({ preset: "groq" });
    await answers(provider, "moonshotai/kimi-k2-thinking");
    await answers(provider, "moonshotai/kimi-k2-thinking");
    const none = [undefined, undefined];
    assert.deepEqual(echoes(), [[" ", " "], none, none]);
  });

  it("is sent or omitted again each time an error of the model asks for it", async () => {
    const provider = make();
    for (const fallback of [requireReasoning, rejectReasoning, requireReasoning]) {
      server.fallback = fallback;
      await answers(provider, "m1");
    }
    const none = [undefined, undefined];
    const field = [" ", " "];
    assert.deepEqual(echoes(), [none, field, field, none, none, field]);
  });

  it("is sent and omitted once each if the server rejects both, and the request then fails", async () => {
    server.fallback = () => (echoes().at(-1)!.includes(undefined) ? fail(400, MISSING) : fail(400, UNSUPPORTED));
    const provider = make();
    for (const count of [2, 4]) {
      await assert.rejects(
        answers(provider, "m1"),
        (error) => hasCode(error, "provider") && error.kind === "bad_request",
      );
      assert.equal(server.requests.length, count);
    }
    server.fallback = fail(400, MISSING);
    await assert.rejects(answers(make(), "kimi-k2.6"), /reasoning_content is missing/);
    assert.equal(server.requests.length, 5);
  });

  it("follows the option echoReasoning until the model rejects that", async () => {
    await answers(make({ echoReasoning: true }), "m1");
    await answers(make({ echoReasoning: false }), "kimi-k2.6");
    await answers(make({ echoReasoning: false, preset: "moonshot" }), "kimi-k2.6");
    const none = [undefined, undefined];
    assert.deepEqual(echoes(), [[" ", " "], none, none]);
    server.fallback = requireReasoning;
    await answers(make({ echoReasoning: false }), "kimi-k2.6");
    assert.deepEqual(echoes().slice(3), [none, [" ", " "]]);
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
    const provider = make({ preset: "openrouter" });
    const called = await answers(provider, "deepseek/deepseek-v4-pro", [user("Hello")]);
    await answers(provider, "deepseek/deepseek-v4-pro", [user("Hello"), called, result("c2", "read", "B")]);
    const { reasoning_content: content, reasoning_details: details } = server.requests.at(-1)!.body.messages[2];
    assert.deepEqual([content, details], ["Because.", [detail]]);
  });

  it("is put back unchanged into the text for MiniMax", async () => {
    server.enqueue(call("read", { path: "a" }, { id: "c2" }), say("<think>\nBecause.\n</think>\n\nIt is A."));
    const provider = make({ preset: "minimax" });
    const called = await answers(provider, "MiniMax-M2", [user("Hello")]);
    const messages = [user("Hello"), called, result("c2", "read", "A")];
    const answerMessage = await answers(provider, "MiniMax-M2", messages);
    await answers(provider, "MiniMax-M2", [...messages, answerMessage, user("And b?")]);
    const contents = (server.requests.at(-1)!.body.messages as { role: string; content: string | null }[])
      .filter(({ role }) => role === "assistant")
      .map(({ content }) => content);
    assert.deepEqual(contents, [null, "<think>\nBecause.\n</think>\n\nIt is A."]);
  });
});
