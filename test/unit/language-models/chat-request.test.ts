import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { Part } from "gantry";
import type { ModelMessage, ModelRequest } from "gantry/plugin";
import type { ModelCallOptions } from "../../../adapters/language-models/language-model.js";
import { PrefixCache, toPrompt } from "../../../adapters/language-models/messages.js";
import {
  createChatRequest,
  PromptSerializer,
  insertMessages,
} from "../../../adapters/language-models/wires/chat-request.js";
import { ask, assistant, PDF, PNG, readTool, result, toolCall, user, writeTool } from "../../helpers/model-requests.js";
import { randomOf } from "../../helpers/random.js";

type Json = Record<string, unknown>;

/** The body that the AI SDK package writes for the same options. */
async function writtenByPackage(model: string, options: ModelCallOptions, usage: boolean): Promise<string> {
  let body: unknown;
  const provider = createOpenAICompatible({
    name: "gantry",
    baseURL: "http://lab/v1",
    includeUsage: usage,
    fetch: async (_url, init) => {
      body = init?.body;
      throw new Error("enough");
    },
  });
  await assert.rejects(Promise.resolve(provider.chatModel(model).doStream(options)), /enough/);
  assert.ok(typeof body === "string");
  return body;
}

const image: Part = { type: "image", mediaType: "image/png", data: PNG };
const pdf: Part = { type: "file", mediaType: "application/pdf", filename: "a b.pdf", data: PDF };
const nameless: Part = { ...pdf, filename: "" };
const binary: Part = { type: "file", mediaType: "application/zip", filename: "a.zip", data: "AAAA" };
const opaque = (data: unknown) => ({ provider: "lab", model: "m1", data });
const details = { openaiCompatible: { reasoning_details: [{ type: "reasoning.text", text: "hm" }] } };
const thought: Part = { type: "reasoning", text: "hm", opaque: opaque({ gantry: { echo: true } }) };
const detailed: Part = { type: "reasoning", text: "hm", opaque: opaque(details) };
const signature = opaque({ gantry: { thoughtSignature: "s==" } });
const signed: Part = { type: "tool_call", id: "c9", name: "read", arguments: '{"path":"x"}', opaque: signature };
const foreign: Part = {
  type: "reasoning",
  text: "no",
  opaque: { provider: "other", model: "m1", data: { a: { b: 1 } } },
};

const TEXTS: readonly Part[] = ["one", "", " \n", "añ 😀 \ud83d", '"quoted"\\'].map((text) => ({ type: "text", text }));
const PARTS: readonly Part[] = [...TEXTS, image, pdf, nameless, binary];
const ASSISTANT_PARTS: readonly (string | Part)[] = [
  "said",
  "",
  thought,
  detailed,
  foreign,
  toolCall("c1", "read", { path: "ñ" }),
];
const CALLS: readonly Part[] = [signed, toolCall("c2", "write", "not json"), toolCall("odd id!", "read", "")];

const CONVERSATIONS: readonly ModelMessage[][] = [
  [user("Hello")],
  [user("")],
  [user("a", "b"), user("c")],
  [user("look", image, pdf)],
  [user(nameless)],
  [user("x"), assistant("y"), user("z")],
  [user("x"), assistant(thought, "y", toolCall("c1", "read", { path: "a" })), result("c1", "read", "text")],
  [user("x"), assistant(detailed, toolCall("c1", "read", {})), result("c1", "read", "", true), assistant("done")],
  [
    user("x"),
    assistant("half", ...CALLS),
    result("c9", "read", [TEXTS[0]!, image]),
    result("c2", "write", [pdf]),
    user("on"),
  ],
];

/** Random conversations of any parts in any order. */
function* anyConversations(count: number): Generator<ModelMessage[]> {
  const random = randomOf(7);
  const pickRandom = <T>(of: readonly T[], most: number): T[] =>
    Array.from({ length: Math.floor(random() * (most + 1)) }, () => of[Math.floor(random() * of.length)]!);
  for (let n = 0; n < count; n++) {
    const messages: ModelMessage[] = [];
    for (let turn = 0; turn <= random() * 4; turn++) {
      messages.push(user(...pickRandom(PARTS, 3)));
      const calls = pickRandom(CALLS, 2);
      messages.push(assistant(...pickRandom(ASSISTANT_PARTS, 3), ...calls));
      for (const call of calls)
        if (call.type === "tool_call") messages.push(result(call.id, call.name, pickRandom(PARTS, 2), random() < 0.3));
    }
    yield messages;
  }
}

const EXTRAS: readonly Json[] = [
  {},
  { reasoningEffort: "high", prompt_cache_key: "k", thinking: { type: "enabled" } },
  { user: "u", reasoning: { effort: "low" }, provider: { order: ["a"] }, textVerbosity: "low", temperature: 1 },
];

describe("the body of a chat completions request", () => {
  const forms = [
    { toolMedia: "after", toolIds: "plain", toolNames: "plain", reasoningOnMessage: true },
    { toolMedia: "inside", toolIds: "short", toolNames: "letter", reasoningOnMessage: false },
  ] as const;
  const check = async (
    messages: ModelMessage[],
    extra: Json,
    callOptions: Partial<ModelCallOptions>,
    usage: boolean,
  ) => {
    const request: ModelRequest = ask({ messages, system: usage ? "You are." : "" });
    for (const form of forms) {
      const input = new Set(usage ? (["text", "image", "pdf"] as const) : (["text"] as const));
      const prompt = toPrompt(request, { ...form, provider: "lab", model: "m1", input });
      const options = { prompt, ...callOptions, providerOptions: { gantry: extra as Record<string, never> } };
      const ours = insertMessages(
        createChatRequest("m1", options, extra, usage),
        new PromptSerializer().serialize(prompt, "none"),
      );
      // The package sends all reasoning, but most providers reject it.
      const plain = prompt.map((message) =>
        message.role === "assistant"
          ? { ...message, content: message.content.filter(({ type }) => type !== "reasoning") }
          : message,
      );
      assert.equal(ours, await writtenByPackage("m1", { ...options, prompt: plain }, usage));
    }
  };
  const tools: NonNullable<ModelCallOptions["tools"]> = [readTool, { ...writeTool, description: "" }].map((tool) => ({
    type: "function",
    name: tool.name,
    description: tool.description,
    inputSchema: tool.inputSchema,
  }));

  it("equals the AI SDK package's body byte for byte, for each listed conversation and option", async () => {
    for (const messages of CONVERSATIONS)
      for (const extra of EXTRAS)
        for (const callOptions of [{}, { tools }, { tools, temperature: 0.3, maxOutputTokens: 4096 }])
          for (const usage of [true, false]) await check(messages, extra, callOptions, usage);
  });

  it("equals the AI SDK package's body byte for byte, for 500 random conversations", async () => {
    for (const messages of anyConversations(500)) await check(messages, EXTRAS[1]!, { tools }, true);
  });

  it("has the same messages with and without the prefix cache, also after a revert", () => {
    const memory = new PrefixCache();
    const texts = new PromptSerializer();
    const request = { ...ask({}), system: "You are." };
    for (const conversation of [...CONVERSATIONS, ...anyConversations(100)])
      for (const form of forms) {
        const rules = { ...form, provider: "lab", model: "m1", input: new Set(["text", "image"] as const) };
        const check = (messages: readonly ModelMessage[]): void => {
          for (const echo of ["none", "field", "tags"] as const) {
            const alone = new PromptSerializer().serialize(toPrompt({ ...request, messages }, rules), echo);
            assert.equal(texts.serialize(toPrompt({ ...request, messages }, rules, memory), echo), alone);
          }
        };
        for (let messageCount = 1; messageCount <= conversation.length; messageCount++)
          check(conversation.slice(0, messageCount));
        // Reverted, continued differently, and started anew.
        check(conversation.slice(0, -2));
        check([...conversation.slice(0, -1), assistant("otherwise"), user("on")]);
        check([...conversation.slice(0, 1), user("more"), ...conversation.slice(2)]);
        check(conversation.slice(1));
        check(conversation);
      }
  });

  it("the prefix cache returns a separate prompt for each model and its inputs", () => {
    const memory = new PrefixCache();
    const request = ask({ messages: [user("look", image), assistant(detailed, "y"), user("and?")] });
    const promptText = (model: string, input: readonly ("text" | "image")[]): string => {
      const rules = { ...forms[0], provider: "lab", model, input: new Set(input) };
      return JSON.stringify(toPrompt(request, rules, memory));
    };
    const [blind, seeing, otherModelPrompt] = [
      promptText("m1", ["text"]),
      promptText("m1", ["text", "image"]),
      promptText("m2", ["text"]),
    ];
    assert.match(blind, /takes no images/);
    assert.match(blind, /reasoning_details/);
    assert.match(seeing, /"mediaType":"image\/png"/);
    assert.doesNotMatch(otherModelPrompt, /reasoning_details/);
    assert.equal(promptText("m1", ["text"]), blind);
  });
});
