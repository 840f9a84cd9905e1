import type { ModelRequest } from "gantry/plugin";
import { acceptsOpenAiPdf } from "../catalogue.js";
import { effortUseOf, getClaudeThinking, removeHostNames, needsEffortToThink } from "../efforts.js";
import { replaceLoneSurrogates } from "../json.js";
import type { ModelCallOptions } from "../language-model.js";
import type { Settings } from "../options.js";
import { ChatReader } from "../reading/openai.js";
import { readReportedCost } from "../prices.js";
import { toChatMessages, createChatRequest, PromptSerializer, insertMessages } from "./chat-request.js";
import { findReasoningEcho, type ReasoningEcho } from "../reasoning-echo.js";
import type { WireRequest, BuiltInWire } from "./wire.js";

/** Key of provider options and opaque data; the same for all providers. */
const OPTIONS_KEY = "gantry";

/** OpenAI's limit for `prompt_cache_key`. */
const MAX_CACHE_KEY_CHARACTERS = 64;

type Body = Record<string, unknown>;

/** Chat completions: OpenAI's older protocol, which nearly all providers support. */
export const wire: BuiltInWire = {
  createReader: () => new ChatReader(OPTIONS_KEY),

  mayUseThinkTags: true,

  leavesPromptUnchanged: true,

  readCost: readReportedCost,

  optionalParameters: (wireRequest) => [
    "cache_key",
    "stream_options",
    echoOf(wireRequest) === "field" ? "echo" : "no_echo",
  ],

  input: ({ id }, { preset }) => (preset && acceptsOpenAiPdf(id, preset) ? ["text", "image", "pdf"] : ["text"]),

  maxOutput: async (_model, { quirks }) => quirks.answerTokens,

  rules: (_model, { quirks }) => ({
    toolMedia: "after",
    toolIds: quirks.shortToolIds === true ? "short" : "plain",
    toolNames: "plain",
    reasoningOnMessage: true,
  }),

  async createRequestBuilder(settings) {
    const { baseUrl, apiKey, quirks } = settings;
    const { keyHeader } = quirks;
    const headers: Record<string, string> = { "content-type": "application/json", "user-agent": "gantry" };
    if (apiKey !== undefined)
      headers[keyHeader?.toLowerCase() ?? "authorization"] = keyHeader === undefined ? `Bearer ${apiKey}` : apiKey;
    for (const [name, value] of Object.entries(settings.headers)) headers[name.toLowerCase()] = value;
    const { href: url } = new URL(`${baseUrl}/chat/completions`);
    const serializer = new PromptSerializer();
    return async (wireRequest, options) => {
      const { rejectedParameters } = wireRequest;
      const { model } = wireRequest.request;
      const echo = echoOf(wireRequest);
      const includesUsage = quirks.noStreamOptions !== true && !rejectedParameters.has("stream_options");
      const body = createChatRequest(model.id, options, options.providerOptions?.[OPTIONS_KEY] ?? {}, includesUsage);
      const cacheMarks = /claude|anthropic/i.test(model.id) ? quirks.cacheMarks : undefined;
      const { prompt } = options;
      const messages = cacheMarks
        ? JSON.stringify(addCacheMarks(toChatMessages(prompt, echo), cacheMarks))
        : serializer.serialize(prompt, echo);
      const text = insertMessages(setAnswerLimit(body, quirks, rejectedParameters.has("max_tokens")), messages);
      return { url, headers, body: replaceLoneSurrogates(text) };
    };
  },

  // Few providers of this protocol support tool calls together with an output schema.
  supportsOutputSchema: ({ request: { tools }, settings: { preset } }) =>
    tools.length === 0 || preset?.id === "openai" || preset?.id === "azure",

  async options({ request, settings: { quirks }, rejectedParameters, maxTokens }) {
    const providerOptions: Body = { ...quirks.body };
    if (quirks.cacheKey === true && !rejectedParameters.has("cache_key"))
      providerOptions.prompt_cache_key = request.cacheKey.slice(0, MAX_CACHE_KEY_CHARACTERS);
    if (!rejectedParameters.has("effort")) Object.assign(providerOptions, thinkingOf(request, quirks.effort));
    // The options are JSON values; the package's type cannot express that.
    const options: Partial<ModelCallOptions> = {
      providerOptions: { [OPTIONS_KEY]: providerOptions as Record<string, never> },
    };
    // Also set after the provider rejected the parameter: the limit is then sent under the other name.
    if (maxTokens !== undefined) options.maxOutputTokens = maxTokens;
    return options;
  },

  // Also set for models without a known need for echoes: a later error may require them.
  reasoningMark: () => ({ [OPTIONS_KEY]: { echo: true } }),

  readAnswerData(metadata) {
    const { reasoningDetails: details, reasoningOpaque } = metadata[OPTIONS_KEY] ?? {};
    if (typeof reasoningOpaque === "string") return { openaiCompatible: { reasoning_opaque: reasoningOpaque } };
    return Array.isArray(details) && details.length > 0
      ? { openaiCompatible: { reasoning_details: details } }
      : undefined;
  },
};

/**
 * Position of earlier reasoning in a request. The model's last rejection has priority, then config and preset, then the
 * family.
 */
function echoOf({ request: { model }, settings: { quirks }, rejectedParameters }: WireRequest): ReasoningEcho {
  if (rejectedParameters.has("echo")) return "none";
  if (rejectedParameters.has("no_echo") || quirks.echoReasoning === true) return "field";
  if (quirks.echoReasoning === false) return "none";
  return findReasoningEcho(model.id);
}

/** Thinking options of a request. */
function thinkingOf({ model, effort, needsReasoning }: ModelRequest, effortParameter: string | undefined): Body {
  if (effort === "") {
    if (effortParameter !== "reasoning" || needsReasoning === false) return {};
    // On a router these models think only on request, and work best with thinking.
    const thinksOnRequest = getClaudeThinking(removeHostNames(model.id)) !== undefined || needsEffortToThink(model.id);
    return thinksOnRequest ? { reasoning: { enabled: true } } : {};
  }
  switch (effortParameter) {
    case "none":
      return {};
    case "reasoning":
      return { reasoning: { effort } };
    case "thinking": {
      const effortUse = effortUseOf(model.id);
      const isOff = effort === "minimal";
      if (effortUse === "without-switch") return { reasoningEffort: effort };
      const type = { thinking: { type: isOff ? "disabled" : "enabled" } };
      return effortUse === "with-switch" && !isOff ? { ...type, reasoningEffort: effort } : type;
    }
    default:
      return { reasoningEffort: effort };
  }
}

/** Renames `max_tokens` to the provider's parameter. `useOtherName`: the provider rejected this parameter. */
function setAnswerLimit({ max_tokens: limit, ...body }: Body, quirks: Settings["quirks"], useOtherName: boolean): Body {
  const parameterName = quirks.maxTokens ?? "max_tokens";
  // Models that reject one of the two parameters accept the other.
  const alternativeName = parameterName === "max_tokens" ? "max_completion_tokens" : "max_tokens";
  if (limit !== undefined) body[useOtherName ? alternativeName : parameterName] = limit;
  return body;
}

/**
 * Adds Anthropic's cache marks for servers that forward them: to the system prompt and the last two user or tool
 * messages.
 */
function addCacheMarks(messages: Body[], field: NonNullable<Settings["quirks"]["cacheMarks"]>): Body[] {
  const markedMessages = messages.filter(({ role }) => role === "user" || role === "tool").slice(-2);
  return messages.map((message) => {
    if (message.role !== "system" && !markedMessages.includes(message)) return message;
    if (field === "copilot_cache_control") return { ...message, [field]: { type: "ephemeral" } };
    const parts: unknown =
      typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
    if (!Array.isArray(parts) || parts.length === 0) return message;
    const lastPart = { ...(parts.at(-1) as object), cache_control: { type: "ephemeral" } };
    return { ...message, content: [...(parts as unknown[]).slice(0, -1), lastPart] };
  });
}
