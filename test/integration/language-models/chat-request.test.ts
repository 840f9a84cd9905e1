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
import {
  createRequest,
  assistantMessage,
  PDF,
  PNG,
  readTool,
  toolResultMessage,
  toolCallPart,
  userMessage,
  writeTool,
} from "../../helpers/model-requests.js";
import { createRandom } from "../../helpers/random.js";

type Json = Record<string, unknown>;

/** Returns the request body of the AI SDK package for the same options. */
async function createPackageBody(model: string, options: ModelCallOptions, includeUsage: boolean): Promise<string> {
  let body: unknown;
  const provider = createOpenAICompatible({
    name: "gantry",
    baseURL: "http://lab/v1",
    includeUsage,
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
const unnamedFile: Part = { ...pdf, filename: "" };
const zipFile: Part = { type: "file", mediaType: "application/zip", filename: "a.zip", data: "AAAA" };
const createOpaque = (data: unknown) => ({ provider: "lab", model: "m1", data });
const reasoningDetails = { openaiCompatible: { reasoning_details: [{ type: "reasoning.text", text: "hm" }] } };
const echoedReasoning: Part = { type: "reasoning", text: "hm", opaque: createOpaque({ gantry: { echo: true } }) };
const detailedReasoning: Part = { type: "reasoning", text: "hm", opaque: createOpaque(reasoningDetails) };
const signatureOpaque = createOpaque({ gantry: { thoughtSignature: "s==" } });
const signedCall: Part = {
  type: "tool_call",
  id: "c9",
  name: "read",
  arguments: '{"path":"x"}',
  opaque: signatureOpaque,
};
const foreignReasoning: Part = {
  type: "reasoning",
  text: "no",
  opaque: { provider: "other", model: "m1", data: { a: { b: 1 } } },
};

const TEXTS: readonly Part[] = ["one", "", " \n", "añ 😀 \ud83d", '"quoted"\\'].map((text) => ({ type: "text", text }));
const PARTS: readonly Part[] = [...TEXTS, image, pdf, unnamedFile, zipFile];
const ASSISTANT_PARTS: readonly (string | Part)[] = [
  "said",
  "",
  echoedReasoning,
  detailedReasoning,
  foreignReasoning,
  toolCallPart("c1", "read", { path: "ñ" }),
];
const CALLS: readonly Part[] = [
  signedCall,
  toolCallPart("c2", "write", "not json"),
  toolCallPart("odd id!", "read", ""),
];

const CONVERSATIONS: readonly ModelMessage[][] = [
  [userMessage("Hello")],
  [userMessage("")],
  [userMessage("a", "b"), userMessage("c")],
  [userMessage("look", image, pdf)],
  [userMessage(unnamedFile)],
  [userMessage("x"), assistantMessage("y"), userMessage("z")],
  [
    userMessage("x"),
    assistantMessage(echoedReasoning, "y", toolCallPart("c1", "read", { path: "a" })),
    toolResultMessage("c1", "read", "text"),
  ],
  [
    userMessage("x"),
    assistantMessage(detailedReasoning, toolCallPart("c1", "read", {})),
    toolResultMessage("c1", "read", "", true),
    assistantMessage("done"),
  ],
  [
    userMessage("x"),
    assistantMessage("half", ...CALLS),
    toolResultMessage("c9", "read", [TEXTS[0]!, image]),
    toolResultMessage("c2", "write", [pdf]),
    userMessage("on"),
  ],
];

/** Yields conversations of random parts in random order. */
function* createRandomConversations(count: number): Generator<ModelMessage[]> {
  const random = createRandom(7);
  const pickRandom = <T>(items: readonly T[], maxCount: number): T[] =>
    Array.from({ length: Math.floor(random() * (maxCount + 1)) }, () => items[Math.floor(random() * items.length)]!);
  for (let n = 0; n < count; n++) {
    const messages: ModelMessage[] = [];
    for (let turn = 0; turn <= random() * 4; turn++) {
      messages.push(userMessage(...pickRandom(PARTS, 3)));
      const calls = pickRandom(CALLS, 2);
      messages.push(assistantMessage(...pickRandom(ASSISTANT_PARTS, 3), ...calls));
      for (const call of calls)
        if (call.type === "tool_call")
          messages.push(toolResultMessage(call.id, call.name, pickRandom(PARTS, 2), random() < 0.3));
    }
    yield messages;
  }
}

const EXTRA_PARAMETERS: readonly Json[] = [
  {},
  { reasoningEffort: "high", prompt_cache_key: "k", thinking: { type: "enabled" } },
  { user: "u", reasoning: { effort: "low" }, provider: { order: ["a"] }, textVerbosity: "low", temperature: 1 },
];

describe("the body of a chat completions request", () => {
  const promptFormats = [
    { toolMedia: "after", toolIds: "plain", toolNames: "plain", reasoningOnMessage: true },
    { toolMedia: "inside", toolIds: "short", toolNames: "letter", reasoningOnMessage: false },
  ] as const;
  /** With `includeUsage`, the request also has a system prompt, images and PDF files. */
  const checkBody = async (
    messages: ModelMessage[],
    extraParameters: Json,
    callOptions: Partial<ModelCallOptions>,
    includeUsage: boolean,
  ) => {
    const request: ModelRequest = createRequest({ messages, system: includeUsage ? "You are." : "" });
    for (const promptFormat of promptFormats) {
      const input = new Set(includeUsage ? (["text", "image", "pdf"] as const) : (["text"] as const));
      const prompt = toPrompt(request, { ...promptFormat, provider: "lab", model: "m1", input });
      const options = { prompt, ...callOptions, providerOptions: { gantry: extraParameters as Record<string, never> } };
      const actualBody = insertMessages(
        createChatRequest("m1", options, extraParameters, includeUsage),
        new PromptSerializer().serialize(prompt, "none"),
      );
      // The package sends all reasoning, but most providers reject it.
      const promptWithoutReasoning = prompt.map((message) =>
        message.role === "assistant"
          ? { ...message, content: message.content.filter(({ type }) => type !== "reasoning") }
          : message,
      );
      assert.equal(
        actualBody,
        await createPackageBody("m1", { ...options, prompt: promptWithoutReasoning }, includeUsage),
      );
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
      for (const extraParameters of EXTRA_PARAMETERS)
        for (const callOptions of [{}, { tools }, { tools, temperature: 0.3, maxOutputTokens: 4096 }])
          for (const usage of [true, false]) await checkBody(messages, extraParameters, callOptions, usage);
  });

  it("equals the AI SDK package's body byte for byte, for 500 random conversations", async () => {
    for (const messages of createRandomConversations(500))
      await checkBody(messages, EXTRA_PARAMETERS[1]!, { tools }, true);
  });

  it("has the same messages with and without the prefix cache, including after a revert", () => {
    const prefixCache = new PrefixCache();
    const serializer = new PromptSerializer();
    const request = { ...createRequest({}), system: "You are." };
    for (const conversation of [...CONVERSATIONS, ...createRandomConversations(100)])
      for (const promptFormat of promptFormats) {
        const rules = { ...promptFormat, provider: "lab", model: "m1", input: new Set(["text", "image"] as const) };
        const checkMessages = (messages: readonly ModelMessage[]): void => {
          for (const echo of ["none", "field", "tags"] as const) {
            const uncachedText = new PromptSerializer().serialize(toPrompt({ ...request, messages }, rules), echo);
            assert.equal(
              serializer.serialize(toPrompt({ ...request, messages }, rules, prefixCache), echo),
              uncachedText,
            );
          }
        };
        for (let messageCount = 1; messageCount <= conversation.length; messageCount++)
          checkMessages(conversation.slice(0, messageCount));
        // Removed, changed and replaced messages, and a conversation without its first message.
        checkMessages(conversation.slice(0, -2));
        checkMessages([...conversation.slice(0, -1), assistantMessage("otherwise"), userMessage("on")]);
        checkMessages([...conversation.slice(0, 1), userMessage("more"), ...conversation.slice(2)]);
        checkMessages(conversation.slice(1));
        checkMessages(conversation);
      }
  });

  it("the prefix cache returns a separate prompt for each model and its inputs", () => {
    const prefixCache = new PrefixCache();
    const request = createRequest({
      messages: [userMessage("look", image), assistantMessage(detailedReasoning, "y"), userMessage("and?")],
    });
    const createPromptText = (model: string, input: readonly ("text" | "image")[]): string => {
      const rules = { ...promptFormats[0], provider: "lab", model, input: new Set(input) };
      return JSON.stringify(toPrompt(request, rules, prefixCache));
    };
    const [textOnlyPrompt, imagePrompt, otherModelPrompt] = [
      createPromptText("m1", ["text"]),
      createPromptText("m1", ["text", "image"]),
      createPromptText("m2", ["text"]),
    ];
    assert.match(textOnlyPrompt, /takes no images/);
    assert.match(textOnlyPrompt, /reasoning_details/);
    assert.match(imagePrompt, /"mediaType":"image\/png"/);
    assert.doesNotMatch(otherModelPrompt, /reasoning_details/);
    assert.equal(createPromptText("m1", ["text"]), textOnlyPrompt);
  });
});
