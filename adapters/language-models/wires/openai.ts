import type { ModelRequest } from "gantry/plugin";
import { claudeThinking } from "../claude.js";
import { gradeOf, withoutHostNames, needsEffortToThink } from "../efforts.js";
import { wellFormed } from "../require-event-stream.js";
import type { ModelCallOptions } from "../language-model.js";
import type { Settings } from "../options.js";
import { ChatReader } from "../reading/openai.js";
import { reportedCost } from "../prices.js";
import { chatMessages, chatRequest, ChatTexts, withMessages, type Echo } from "./chat-request.js";
import type { WireRequest, BuiltInWire } from "./wire.js";

// Key of provider options; the same for all providers.
const NAME = "gantry";

type Body = Record<string, unknown>;

/** Chat completions: OpenAI's older protocol, which nearly all providers support. */
export const wire: BuiltInWire = {
  reader: () => new ChatReader(NAME),

  thinkTags: true,

  leavesPromptUnchanged: true,

  cost: reportedCost,

  optional: (asking) => ["cache_key", "stream_options", echoOf(asking) === "field" ? "echo" : "no_echo"],

  input: (model, { preset }) =>
    (preset?.id === "openai" || preset?.id === "azure") &&
    /^(gpt-(4o|4\.1|4\.5|[5-9])|o[134])(?!.*(audio|realtime))/.test(model.id)
      ? ["text", "image", "pdf"]
      : ["text"],

  rules: (_model, { quirks }) => ({
    toolMedia: "behind",
    toolIds: quirks.shortToolIds === true ? "short" : "plain",
    toolNames: "plain",
    reasoningOnMessage: true,
  }),

  async open(settings) {
    const { baseUrl, apiKey, quirks } = settings;
    const { keyHeader } = quirks;
    const headers: Record<string, string> = { "content-type": "application/json", "user-agent": "gantry" };
    if (apiKey !== undefined)
      headers[keyHeader?.toLowerCase() ?? "authorization"] = keyHeader === undefined ? `Bearer ${apiKey}` : apiKey;
    for (const [name, value] of Object.entries(settings.headers)) headers[name.toLowerCase()] = value;
    const { href: url } = new URL(`${baseUrl}/chat/completions`);
    const texts = new ChatTexts();
    return async (asking, options) => {
      const { refused } = asking;
      const { model } = asking.request;
      const echo = echoOf(asking);
      const usage = quirks.noStreamOptions !== true && !refused.has("stream_options");
      const body = chatRequest(model.id, options, options.providerOptions?.[NAME] ?? {}, usage);
      const marks = quirks.cacheMarks === true && /claude|anthropic/i.test(model.id);
      const { prompt } = options;
      const messages = marks ? JSON.stringify(withCacheMarks(chatMessages(prompt, echo))) : texts.of(prompt, echo);
      const text = withMessages(withAnswerLimit(body, quirks, refused.has("max_tokens")), messages);
      return { url, headers, body: wellFormed(text) };
    };
  },

  // Few providers of this protocol support tool calls together with an output schema.
  supportsOutputSchema: ({ request: { tools }, settings: { preset } }) =>
    tools.length === 0 || preset?.id === "openai" || preset?.id === "azure",

  async options({ request, settings: { quirks }, refused, maxTokens }) {
    const extra: Body = { ...quirks.body };
    if (quirks.cacheKey === true && !refused.has("cache_key")) extra.prompt_cache_key = request.cacheKey.slice(0, 64);
    if (!refused.has("effort")) Object.assign(extra, thinkingOf(request, quirks.effort));
    // These are JSON values; the package's type cannot express that.
    const options: Partial<ModelCallOptions> = { providerOptions: { [NAME]: extra as Record<string, never> } };
    // Also set after the provider rejected the parameter: it is then sent under its other name.
    if (maxTokens !== undefined) options.maxOutputTokens = maxTokens;
    return options;
  },

  // Also set for models without a known need for echoes: a later error may require them.
  reasoningMark: { [NAME]: { echo: true } },

  answerData(metadata) {
    const details = metadata[NAME]?.reasoningDetails;
    return Array.isArray(details) && details.length > 0
      ? { openaiCompatible: { reasoning_details: details } }
      : undefined;
  },
};

/**
 * Models that reject an assistant message without `reasoning_content` on any server: DeepSeek since V3.2
 * (https://api-docs.deepseek.com/guides/thinking_mode), Kimi K2 Thinking, and Kimi since K2.5
 * (https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model). Hosts write `k2.5`, `k2p5` and `k2-5`.
 */
const ECHO_FAMILIES =
  /deepseek[-_]?(reasoner|v(3[.p-]2(?!\d)|[4-9]))|kimi[-_](k2[-_]thinking|k2[.p-][5-9](?!\d)|k[3-9]|for-coding)/;

/**
 * MiniMax M2 writes its reasoning into the text and expects it there
 * (https://platform.minimax.io/docs/guides/text-m2-function-call).
 */
const TAG_FAMILIES = /minimax-m2/;

/**
 * Position of earlier reasoning in a request. The model's last rejection has priority, then config and preset, then the
 * family.
 */
function echoOf({ request: { model }, settings: { quirks }, refused }: WireRequest): Echo {
  if (refused.has("echo")) return "none";
  if (refused.has("no_echo") || quirks.echoReasoning === true) return "field";
  if (quirks.echoReasoning === false) return "none";
  const name = withoutHostNames(model.id);
  return ECHO_FAMILIES.test(name) ? "field" : TAG_FAMILIES.test(name) ? "tags" : "none";
}

/** Thinking options of a request. */
function thinkingOf({ model, effort, needsReasoning }: ModelRequest, form: string | undefined): Body {
  if (effort === "") {
    // On a router these models think only on request, and work best with thinking.
    const thinksOnRequest = claudeThinking(withoutHostNames(model.id)) !== undefined || needsEffortToThink(model.id);
    return form === "reasoning" && thinksOnRequest && needsReasoning !== false ? { reasoning: { enabled: true } } : {};
  }
  switch (form) {
    case "none":
      return {};
    case "reasoning":
      return { reasoning: { effort } };
    case "thinking": {
      const grade = gradeOf(model.id);
      const isOff = effort === "minimal";
      if (grade === "alone") return { reasoningEffort: effort };
      const type = { thinking: { type: isOff ? "disabled" : "enabled" } };
      return grade === "beside" && !isOff ? { ...type, reasoningEffort: effort } : type;
    }
    default:
      return { reasoningEffort: effort };
  }
}

/** Sets the answer limit under the provider's parameter name, in a body as the package writes it. */
function withAnswerLimit({ max_tokens: limit, ...body }: Body, quirks: Settings["quirks"], otherName: boolean): Body {
  const name = quirks.maxTokens ?? "max_tokens";
  // Models that reject one of the two parameters accept the other.
  const alternativeName = name === "max_tokens" ? "max_completion_tokens" : "max_tokens";
  if (limit !== undefined) body[otherName ? alternativeName : name] = limit;
  return body;
}

/**
 * Adds Anthropic's cache marks for servers that forward them: to the system prompt and the last two user or tool
 * messages.
 */
function withCacheMarks(messages: Body[]): Body[] {
  const last = messages.filter(({ role }) => role === "user" || role === "tool").slice(-2);
  return messages.map((message) => {
    if (message.role !== "system" && !last.includes(message)) return message;
    const parts: unknown =
      typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
    if (!Array.isArray(parts) || parts.length === 0) return message;
    const end = { ...(parts.at(-1) as object), cache_control: { type: "ephemeral" } };
    return { ...message, content: [...(parts as unknown[]).slice(0, -1), end] };
  });
}
