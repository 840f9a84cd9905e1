import type { ModelRequest } from "gantry/plugin";
import { getClaudeThinking, type ClaudeThinking, type EffortLevel } from "../efforts.js";
import type { ModelCallOptions } from "../language-model.js";
import { MessagesReader } from "../reading/anthropic.js";
import { readReportedCost } from "../prices.js";
import { captureRequest, createRequestBuilder } from "../request-capture.js";
import type { Settings } from "../options.js";
import { REASONING_PLACEHOLDER, requiresReasoning } from "../reasoning-echo.js";
import type { BuiltInWire, HttpRequestData, WireRequest } from "./wire.js";

const BETA_HEADER = "anthropic-beta";

const CACHE_MARK = { anthropic: { cacheControl: { type: "ephemeral" } } } as const;
const THINKING_BUDGET_TOKENS: Readonly<Record<EffortLevel, number>> = {
  minimal: 1024,
  low: 4096,
  medium: 12_000,
  high: 24_000,
  xhigh: 32_000,
  max: 32_000,
};
/** Minimum answer limit for thinking. A lower limit leaves no room for thoughts. */
const MIN_THINKING_ANSWER_TOKENS = 2048;
/** Anthropic rejects a lower thinking budget. */
const MIN_THINKING_BUDGET_TOKENS = 1024;
/** Lets Claude 4 to 4.5 think between tool calls. Later models do so on their own. */
const INTERLEAVED_THINKING_BETA = "interleaved-thinking-2025-05-14";
/** Reasoning without a signature, which the servers of other models accept. */
const UNSIGNED = { anthropic: { signature: "" } } as const;
/** Maximum answer tokens of Claude models with an unknown limit. */
const DEFAULT_ANSWER_TOKENS = 32_000;
/** Maximum answer tokens of models other than Claude on servers of this protocol. */
const DEFAULT_OTHER_ANSWER_TOKENS = 8192;

/** Options of the package, or a token budget for thoughts. The answer limit includes the budget. */
interface Thinking {
  readonly budgetTokens?: number;
  readonly effort?: EffortLevel;
  readonly thinking?: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
}

/** Anthropic's Messages API. */
export const wire: BuiltInWire = {
  createReader: () => new MessagesReader(),

  readCost: readReportedCost,

  optionalParameters: (wireRequest) => [needsThoughts(wireRequest) ? "echo" : "no_echo"],

  reasoningMark: (modelId) => (requiresReasoning(modelId) ? UNSIGNED : undefined),

  input: () => ["text", "image", "pdf"],

  rules: () => ({ toolMedia: "inside", toolIds: "plain", toolNames: "plain", reasoningOnMessage: false }),

  async maxOutput(model) {
    const { getModelCapabilities } = await import("@ai-sdk/anthropic/internal");
    const { maxOutputTokens, isKnownModel } = getModelCapabilities(model.id);
    return isKnownModel
      ? maxOutputTokens
      : /claude/i.test(model.id)
        ? Math.max(maxOutputTokens, DEFAULT_ANSWER_TOKENS)
        : DEFAULT_OTHER_ANSWER_TOKENS;
  },

  async createRequestBuilder(settings) {
    // The file that also has the capabilities; the package's main entry would load a second copy.
    const { AnthropicMessagesLanguageModel } = await import("@ai-sdk/anthropic/internal");
    const key = { "x-api-key": settings.apiKey ?? "" };
    const headers = { "anthropic-version": "2023-06-01", ...key, ...settings.headers };
    const config = { provider: "anthropic.messages", baseURL: settings.baseUrl, headers, fetch: captureRequest };
    const build = createRequestBuilder((modelId) => new AnthropicMessagesLanguageModel(modelId, config));
    return async (wireRequest, options) => removePackageBetas(await build(wireRequest, options), settings);
  },

  async supportsOutputSchema({ request: { model, outputSchema }, settings }) {
    if (settings.preset?.id !== "anthropic") return false;
    const { getModelCapabilities, supportsNativeStructuredOutputSchema } = await import("@ai-sdk/anthropic/internal");
    // The types differ by the JSON Schema draft; the package treats them alike.
    const schema = outputSchema as Parameters<typeof supportsNativeStructuredOutputSchema>[0];
    return getModelCapabilities(model.id).supportsStructuredOutput && supportsNativeStructuredOutputSchema(schema);
  },

  async options(wireRequest, { prompt: plainPrompt, tools, responseFormat }) {
    const { request, settings, rejectedParameters, maxTokens } = wireRequest;
    const prompt = needsThoughts(wireRequest) ? plainPrompt.map(addThought) : plainPrompt;
    const options: Partial<ModelCallOptions> = { prompt: markPrompt(prompt) };
    if (tools !== undefined) options.tools = markTools(tools);
    // Other servers of this protocol may not know this field.
    const commonOptions = {
      ...(settings.preset?.id === "anthropic" ? {} : { toolStreaming: false }),
      // Not as a tool call, which would not be recognized as an answer.
      ...(responseFormat === undefined ? {} : { structuredOutputMode: "outputFormat" }),
    };
    const { budgetTokens, ...thinking } = rejectedParameters.has("effort")
      ? {}
      : thinkingOf(request, settings, prompt, maxTokens);
    if (budgetTokens === undefined)
      return { ...options, providerOptions: { anthropic: { ...commonOptions, ...thinking } } };
    return {
      ...options,
      // The package adds the budget to this limit.
      maxOutputTokens: (maxTokens ?? DEFAULT_ANSWER_TOKENS) - budgetTokens,
      providerOptions: {
        anthropic: {
          ...commonOptions,
          thinking: { type: "enabled", budgetTokens },
          ...(tools !== undefined &&
            !/claude-3/.test(request.model.id) && { anthropicBeta: [INTERLEAVED_THINKING_BETA] }),
        },
      },
    };
  },
};

/** Whether every earlier message with tool calls must contain reasoning, by the last rejection or the family. */
function needsThoughts({
  request: { model },
  rejectedParameters,
}: Pick<WireRequest, "request" | "rejectedParameters">) {
  if (rejectedParameters.has("echo")) return false;
  return rejectedParameters.has("no_echo") || requiresReasoning(model.id);
}

/** Adds a placeholder to a message that has tool calls and no reasoning, as another model writes it. */
function addThought(message: ModelCallOptions["prompt"][number]): ModelCallOptions["prompt"][number] {
  if (message.role !== "assistant") return message;
  const { content } = message;
  const isComplete =
    content.some(({ type }) => type === "reasoning") || !content.some(({ type }) => type === "tool-call");
  return isComplete
    ? message
    : {
        ...message,
        content: [{ type: "reasoning", text: REASONING_PLACEHOLDER, providerOptions: UNSIGNED }, ...content],
      };
}

/**
 * Thinking options of a request. Claude works best with thinking, which is therefore enabled unless the request needs
 * none.
 */
function thinkingOf(
  { model, effort, needsReasoning }: ModelRequest,
  settings: Settings,
  prompt: ModelCallOptions["prompt"],
  maxTokens = DEFAULT_ANSWER_TOKENS,
): Thinking {
  const claudeOptions = getClaudeThinking(model.id);
  const avoidsThinking = needsReasoning === false || maxTokens < MIN_THINKING_ANSWER_TOKENS;
  // Other models of this protocol think only on request, with a token budget like older Claude models.
  if (claudeOptions?.mode !== "adaptive") {
    if (avoidsThinking || model.reasoning === false || (effort === "" && claudeOptions === undefined)) return {};
    if (hasCallsWithoutThoughts(prompt)) return {};
    return {
      budgetTokens: Math.max(
        MIN_THINKING_BUDGET_TOKENS,
        Math.min(THINKING_BUDGET_TOKENS[effort || "medium"], Math.floor(maxTokens / 2)),
      ),
    };
  }
  if (model.reasoning === false) return {};
  const bindingOptions = bindingOf(claudeOptions, settings);
  if (avoidsThinking) {
    if (claudeOptions.avoidanceMethod === "disabled") return { thinking: { type: "disabled" } };
    return claudeOptions.avoidanceMethod === "default"
      ? {}
      : { effort: "low", ...(bindingOptions && { thinking: bindingOptions }) };
  }
  const effortOption = effort === "" ? {} : { effort: effort === "minimal" ? ("low" as const) : effort };
  return { ...effortOption, thinking: { type: "adaptive", display: "summarized", ...bindingOptions } };
}

/**
 * Whether the current turn has tool calls without preceding thoughts, as other models make them. With a budget such a
 * request is rejected; models with adaptive thinking accept it.
 */
function hasCallsWithoutThoughts(prompt: ModelCallOptions["prompt"]): boolean {
  const turnMessages = prompt.slice(prompt.findLastIndex(({ role }) => role === "user") + 1);
  return turnMessages.some(
    (message) =>
      message.role === "assistant" &&
      message.content[0]?.type !== "reasoning" &&
      message.content.some(({ type }) => type === "tool-call"),
  );
}

/**
 * Option that drops the thoughts after a changed prompt, for example after a compaction. Undefined for other servers
 * than Anthropic's and for models that accept such thoughts.
 */
function bindingOf({ bindsThoughts }: ClaudeThinking, { baseUrl }: Settings) {
  if (!bindsThoughts || new URL(baseUrl).hostname !== "api.anthropic.com") return undefined;
  return { blockBinding: { prefixMismatchBehavior: "drop_block" } } as const;
}

/**
 * Marks the ends of cached prefixes: system, tools, and the last two turns, so that the next call finds one of them.
 */
function markPrompt(prompt: ModelCallOptions["prompt"]): ModelCallOptions["prompt"] {
  const lastMessages = prompt.filter(({ role }) => role === "user" || role === "tool").slice(-2);
  return prompt.map((message) =>
    message.role === "system" || lastMessages.includes(message)
      ? { ...message, providerOptions: { ...message.providerOptions, ...CACHE_MARK } }
      : message,
  );
}

function markTools(tools: NonNullable<ModelCallOptions["tools"]>): NonNullable<ModelCallOptions["tools"]> {
  return tools.map((tool, index) =>
    index === tools.length - 1 && tool.type === "function" ? { ...tool, providerOptions: CACHE_MARK } : tool,
  );
}

/**
 * Removes the beta features that the AI SDK package adds, unless the server serves Claude: other servers of this
 * protocol reject unknown features. Configured features are always sent.
 */
function removePackageBetas(request: HttpRequestData, settings: Settings): HttpRequestData {
  if (new URL(settings.baseUrl).hostname === "api.anthropic.com") return request;
  const configuredBetas = Object.entries(settings.headers).find(([name]) => name.toLowerCase() === BETA_HEADER)?.[1];
  const { [BETA_HEADER]: packageBetas, ...headers } = request.headers;
  // Vertex serves Claude itself.
  const knowsInterleaving =
    settings.preset?.host === "vertex" && packageBetas?.includes(INTERLEAVED_THINKING_BETA) === true;
  const betas = [
    ...(configuredBetas ? [configuredBetas] : []),
    ...(knowsInterleaving ? [INTERLEAVED_THINKING_BETA] : []),
  ];
  return { ...request, headers: betas.length === 0 ? headers : { ...headers, [BETA_HEADER]: betas.join(",") } };
}
