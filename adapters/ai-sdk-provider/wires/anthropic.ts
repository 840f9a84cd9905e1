import type { Model, ReasoningEffort } from "gantry";
import type { CallOptions } from "../language-model.js";
import { MessagesReader } from "../reading/anthropic.js";
import { reportedCost } from "../prices.js";
import { handedOver, writtenBy } from "../writing.js";
import type { OwnWire } from "./wire.js";

const MARK = { anthropic: { cacheControl: { type: "ephemeral" } } } as const;
const BUDGETS: Readonly<Record<Exclude<ReasoningEffort, "">, number>> = {
  minimal: 1024,
  low: 4096,
  medium: 12_000,
  high: 24_000,
};
/** Of models that are not Claude, behind servers that speak this protocol. */
const MAX_OUTPUT_UNKNOWN = 8192;

/** What the package knows of Claude models. */
async function capabilities(model: Model): Promise<{ maxOutputTokens: number; known: boolean; adaptive: boolean }> {
  const { getModelCapabilities } = await import("@ai-sdk/anthropic/internal");
  const { maxOutputTokens, isKnownModel } = getModelCapabilities(model.id);
  // Those that decide themselves how long to think are those with the long answers.
  return { maxOutputTokens, known: isKnownModel, adaptive: isKnownModel && maxOutputTokens >= 128_000 };
}

/** Anthropic's Messages API. */
export const wire: OwnWire = {
  reader: () => new MessagesReader(),

  cost: reportedCost,

  input: () => ["text", "image", "pdf"],

  rules: () => ({ toolMedia: "inside", toolIds: "plain", toolNames: "plain", reasoningOnMessage: false }),

  async maxOutput(model) {
    const { maxOutputTokens, known } = await capabilities(model);
    return known ? maxOutputTokens : /claude/i.test(model.id) ? Math.max(maxOutputTokens, 32_000) : MAX_OUTPUT_UNKNOWN;
  },

  async open(settings) {
    // The same file as the capabilities; the package's face has a copy of everything.
    const { AnthropicMessagesLanguageModel } = await import("@ai-sdk/anthropic/internal");
    const key = { "x-api-key": settings.apiKey ?? "" };
    const headers = { "anthropic-version": "2023-06-01", ...key, ...settings.headers };
    const config = { provider: "anthropic.messages", baseURL: settings.baseUrl, headers, fetch: handedOver };
    return writtenBy((modelId) => new AnthropicMessagesLanguageModel(modelId, config));
  },

  async ownJson({ request: { model, outputSchema }, settings }) {
    if (settings.preset?.id !== "anthropic") return false;
    const { getModelCapabilities, supportsNativeStructuredOutputSchema } = await import("@ai-sdk/anthropic/internal");
    // Of two drafts of JSON Schema, which are one type to the package.
    const schema = outputSchema as Parameters<typeof supportsNativeStructuredOutputSchema>[0];
    return getModelCapabilities(model.id).supportsStructuredOutput && supportsNativeStructuredOutputSchema(schema);
  },

  async options({ request: { effort, model }, settings, refused, maxTokens }, { prompt, tools, responseFormat }) {
    const options: Partial<CallOptions> = { prompt: markPrompt(prompt) };
    if (tools !== undefined) options.tools = markTools(tools);
    // A field that others who speak this protocol need not know.
    const plain = {
      ...(settings.preset?.id === "anthropic" ? {} : { toolStreaming: false }),
      // Never as a call of a tool, which nobody here would take for an answer.
      ...(responseFormat === undefined ? {} : { structuredOutputMode: "outputFormat" }),
    };
    if (effort === "" || refused.has("effort")) return { ...options, providerOptions: { anthropic: plain } };
    const { adaptive } = await capabilities(model);
    if (adaptive) {
      const thinking = { type: "adaptive", display: "summarized" };
      const level = effort === "minimal" ? "low" : effort;
      return { ...options, providerOptions: { anthropic: { ...plain, thinking, effort: level } } };
    }
    // Thinking is a part of the answer, and must leave room for the rest of it; of a short one, all of it.
    const limit = maxTokens ?? 32_000;
    if (limit < 2048) return { ...options, providerOptions: { anthropic: plain } };
    const budgetTokens = Math.max(1024, Math.min(BUDGETS[effort], Math.floor(limit / 2)));
    return {
      ...options,
      // The package adds the budget to what it is given.
      maxOutputTokens: limit - budgetTokens,
      providerOptions: { anthropic: { ...plain, thinking: { type: "enabled", budgetTokens } } },
    };
  },
};

/** The prefix is cached up to each mark: system, tools, and the last two turns, so that the next call finds one of them. */
function markPrompt(prompt: CallOptions["prompt"]): CallOptions["prompt"] {
  const turns = prompt.filter(({ role }) => role === "user" || role === "tool").slice(-2);
  return prompt.map((message) =>
    message.role === "system" || turns.includes(message)
      ? { ...message, providerOptions: { ...message.providerOptions, ...MARK } }
      : message,
  );
}

function markTools(tools: NonNullable<CallOptions["tools"]>): NonNullable<CallOptions["tools"]> {
  return tools.map((tool, index) =>
    index === tools.length - 1 && tool.type === "function" ? { ...tool, providerOptions: MARK } : tool,
  );
}
