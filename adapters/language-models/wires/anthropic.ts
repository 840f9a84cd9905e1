import type { ModelRequest } from "gantry/plugin";
import { claudeThinking, type ClaudeThinking } from "../claude.js";
import type { Effort } from "../efforts.js";
import type { CallOptions } from "../language-model.js";
import { MessagesReader } from "../reading/anthropic.js";
import { reportedCost } from "../prices.js";
import { captureRequest, writtenBy } from "../writing.js";
import type { Settings } from "../options.js";
import type { OwnWire } from "./wire.js";

const MARK = { anthropic: { cacheControl: { type: "ephemeral" } } } as const;
const BUDGETS: Readonly<Record<Effort, number>> = {
  minimal: 1024,
  low: 4096,
  medium: 12_000,
  high: 24_000,
  xhigh: 32_000,
  max: 32_000,
};
/** A shorter answer leaves no room for thoughts. */
const SHORTEST_THINKING = 2048;
/** Tokens of an answer whose limit nobody knows. */
const DEFAULT_LIMIT = 32_000;
/** Of models that are not Claude, behind servers that speak this protocol. */
const MAX_OUTPUT_UNKNOWN = 8192;

/** Options of the package, or a budget that is a part of the answer and must leave room for the rest of it. */
interface Thinking {
  readonly budgetTokens?: number;
  readonly effort?: Effort;
  readonly thinking?: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
}

/** Anthropic's Messages API. */
export const wire: OwnWire = {
  reader: () => new MessagesReader(),

  cost: reportedCost,

  input: () => ["text", "image", "pdf"],

  rules: () => ({ toolMedia: "inside", toolIds: "plain", toolNames: "plain", reasoningOnMessage: false }),

  async maxOutput(model) {
    const { getModelCapabilities } = await import("@ai-sdk/anthropic/internal");
    const { maxOutputTokens, isKnownModel } = getModelCapabilities(model.id);
    return isKnownModel
      ? maxOutputTokens
      : /claude/i.test(model.id)
        ? Math.max(maxOutputTokens, 32_000)
        : MAX_OUTPUT_UNKNOWN;
  },

  async open(settings) {
    // The same file as the capabilities; the package's face has a copy of everything.
    const { AnthropicMessagesLanguageModel } = await import("@ai-sdk/anthropic/internal");
    const key = { "x-api-key": settings.apiKey ?? "" };
    const headers = { "anthropic-version": "2023-06-01", ...key, ...settings.headers };
    const config = { provider: "anthropic.messages", baseURL: settings.baseUrl, headers, fetch: captureRequest };
    return writtenBy((modelId) => new AnthropicMessagesLanguageModel(modelId, config));
  },

  async ownJson({ request: { model, outputSchema }, settings }) {
    if (settings.preset?.id !== "anthropic") return false;
    const { getModelCapabilities, supportsNativeStructuredOutputSchema } = await import("@ai-sdk/anthropic/internal");
    // Of two drafts of JSON Schema, which are one type to the package.
    const schema = outputSchema as Parameters<typeof supportsNativeStructuredOutputSchema>[0];
    return getModelCapabilities(model.id).supportsStructuredOutput && supportsNativeStructuredOutputSchema(schema);
  },

  async options({ request, settings, refused, maxTokens }, { prompt, tools, responseFormat }) {
    const options: Partial<CallOptions> = { prompt: markPrompt(prompt) };
    if (tools !== undefined) options.tools = markTools(tools);
    // A field that others who speak this protocol need not know.
    const plain = {
      ...(settings.preset?.id === "anthropic" ? {} : { toolStreaming: false }),
      // Never as a call of a tool, which nobody here would take for an answer.
      ...(responseFormat === undefined ? {} : { structuredOutputMode: "outputFormat" }),
    };
    const { budgetTokens, ...thinking } = refused.has("effort") ? {} : thinkingOf(request, settings, prompt, maxTokens);
    if (budgetTokens === undefined) return { ...options, providerOptions: { anthropic: { ...plain, ...thinking } } };
    return {
      ...options,
      // The package adds the budget to what it is given.
      maxOutputTokens: (maxTokens ?? DEFAULT_LIMIT) - budgetTokens,
      providerOptions: { anthropic: { ...plain, thinking: { type: "enabled", budgetTokens } } },
    };
  },
};

/** What a model is told of thinking: Claude thinks best when it does, so that it is asked to unless the call needs none. */
function thinkingOf(
  { model, effort, needsReasoning: thinks }: ModelRequest,
  settings: Settings,
  prompt: CallOptions["prompt"],
  maxTokens = DEFAULT_LIMIT,
): Thinking {
  const claude = claudeThinking(model.id);
  const isQuiet = thinks === false || maxTokens < SHORTEST_THINKING;
  // What else speaks this protocol thinks when it is told to, by a budget as Claude once did.
  if (claude?.how !== "adaptive") {
    if (isQuiet || model.reasoning === false || (effort === "" && claude === undefined)) return {};
    if (hasThoughtlessCalls(prompt)) return {};
    return { budgetTokens: Math.max(1024, Math.min(BUDGETS[effort || "medium"], Math.floor(maxTokens / 2))) };
  }
  if (model.reasoning === false) return {};
  const bound = bindingOf(claude, settings);
  if (isQuiet) {
    if (claude.quiet === "disabled") return { thinking: { type: "disabled" } };
    return claude.quiet === "unasked" ? {} : { effort: "low", ...(bound && { thinking: bound }) };
  }
  const asked = effort === "" ? {} : { effort: effort === "minimal" ? ("low" as const) : effort };
  return { ...asked, thinking: { type: "adaptive", display: "summarized", ...bound } };
}

/**
 * Whether the turn under way has calls without the thoughts before them, as others make them: with a budget such a question
 * is refused. By themselves models think of them all the same.
 */
function hasThoughtlessCalls(prompt: CallOptions["prompt"]): boolean {
  const turn = prompt.slice(prompt.findLastIndex(({ role }) => role === "user") + 1);
  return turn.some(
    (message) =>
      message.role === "assistant" &&
      message.content[0]?.type !== "reasoning" &&
      message.content.some(({ type }) => type === "tool-call"),
  );
}

/** Thoughts behind a prompt that is another now, after a compaction for instance, are dropped by whoever made them: by Anthropic itself. */
function bindingOf({ isBound }: ClaudeThinking, { baseUrl }: Settings) {
  if (!isBound || new URL(baseUrl).hostname !== "api.anthropic.com") return undefined;
  return { blockBinding: { prefixMismatchBehavior: "drop_block" } } as const;
}

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
