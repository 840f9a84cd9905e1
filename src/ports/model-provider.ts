import type { ModelMessage, OpaqueData } from "./message.js";
import type { JsonSchema, ToolSpec } from "./tool.js";
import type { WebSearchResult } from "./web-search.js";

/** USD per million tokens. */
export interface ModelPrices {
  input: number;
  output: number;
  /** Default: `input`. */
  cacheRead?: number | undefined;
  /** Default: `input`. */
  cacheWrite?: number | undefined;
}

/** An available model. */
export interface Model {
  id: string;
  /** Name for people. The id if the provider has no name for it. */
  name: string;
  ownedBy: string;
  /** Prompt and completion tokens together; undefined if unknown. */
  contextWindow?: number | undefined;
  /** Maximum tokens of one answer; undefined if unknown. */
  maxOutput?: number | undefined;
  /** Whether the model reasons, so that an effort can be selected. Undefined: unknown. */
  reasoning?: boolean | undefined;
  /**
   * True if the provider has not confirmed the model: the entry comes from `fallbackModels`, because no list was
   * available yet.
   */
  isAssumed?: true | undefined;
  /**
   * Supported efforts, lowest first. Empty if the model chooses its own effort. Default: unknown; the requested effort
   * is sent unchanged.
   */
  efforts?: readonly Exclude<ReasoningEffort, "">[] | undefined;
  /** Supported input besides text. Default: unknown; handled as text only. */
  input?: readonly ("text" | "image" | "pdf")[] | undefined;
  /** Undefined: `ModelProvider.prices` is asked. */
  prices?: ModelPrices | undefined;
}

/** Request of one model call. */
export interface ModelRequest {
  /** Catalogue entry of the model, with its limits and supported input. */
  model: Model;
  /** Identical from call to call, so that providers can cache the prefix. */
  system: string;
  /**
   * A valid conversation: each tool call is followed directly by its result, and the roles are in order. Opaque fields
   * are only those of this provider and model.
   */
  messages: readonly ModelMessage[];
  /** Sorted by name. */
  tools: readonly ToolSpec[];
  /** Undefined: the provider's default. */
  temperature?: number | undefined;
  /** Maximum tokens of the answer. Default: the model's own limit. */
  maxTokens?: number | undefined;
  /** An effort that the model supports, if its efforts are known. */
  effort: ReasoningEffort;
  /**
   * Whether the model should reason. Default: true. False for titles and summaries, which also use a small effort.
   */
  needsReasoning?: boolean | undefined;
  /**
   * JSON Schema for the text of an answer without calls. Providers use it only if they can enforce it without side
   * effects; the kernel validates in any case.
   */
  outputSchema?: JsonSchema | undefined;
  /** Identical for all calls of one session. */
  cacheKey: string;
  /**
   * Resolves when the run's messages are stored; the provider must not send the request before. Set only for providers
   * with `supportsDeferredStart`; the kernel calls other providers afterwards. Undefined: send at once.
   */
  startAfter?: Promise<void> | undefined;
}

/** Usage as reported by a provider. */
export interface ModelUsage {
  /** Includes cached tokens. */
  inputTokens: number;
  /** Includes reasoning tokens. */
  outputTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  reasoningTokens: number;
  /**
   * USD. Reported by the provider (`costReported`), otherwise computed from public prices if known. Configured prices
   * override public prices. Undefined if no price is known.
   */
  cost?: number | undefined;
  /** Whether `cost` is the amount reported by the provider. */
  costReported?: boolean | undefined;
  /** True if the provider reported no usage and the values are estimates. */
  estimated?: boolean | undefined;
}

/** Why a model stopped, in the vocabulary of the run's `finishReason`. Null if the provider gave no known reason. */
export type FinishReason = "stop" | "length" | "content_filter" | "tool_calls" | null;

/** A chunk of an answer. Chunks with the same `block` belong to one part. */
export type ModelChunk =
  | { type: "text" | "reasoning"; block: string; text: string; opaque?: OpaqueData["data"] }
  /** A piece of a call's arguments while they arrive. Such chunks reset the idle timeout and are never shown. */
  | { type: "tool_input"; text: string }
  | { type: "tool_call"; id: string; name: string; arguments: string; opaque?: OpaqueData["data"] }
  /** Exactly once, as the last chunk. */
  | { type: "finish"; reason: FinishReason; usage: ModelUsage };

/** A source of language models, independent of vendor packages. */
export interface ModelProvider {
  /** Name by which clients select the provider. No `/` and no white space. */
  readonly name: string;
  /** Maximum time between two chunks, in ms. The kernel aborts a call after it. */
  readonly idleTimeoutMs: number;
  /** Maximum retries of the kernel after a transient error. */
  readonly maxRetries: number;
  /**
   * Maximum delay that a provider may request before a retry, in ms; usually 60,000. The kernel gives up if the
   * provider requests more.
   */
  readonly maxWaitMs: number;
  /** Whether the provider itself awaits `startAfter` and prepares the request meanwhile. Default: false. */
  readonly supportsDeferredStart?: boolean | undefined;
  /** Models from the configuration. Never uses the network. */
  readonly configuredModels: readonly Model[];
  /** Available models, including the configured ones. May use the network; the kernel caches the result. */
  models(signal: AbortSignal): Promise<Model[]>;
  /**
   * Models that the provider is known to offer, without a request. The kernel uses these models until the first list
   * arrives, for instance while the provider is unreachable. Undefined or empty: no fallback.
   */
  fallbackModels?(): Promise<Model[]>;
  /**
   * Prices of a model for a prompt of `promptTokens`, if its catalogue entry has none. Undefined if unknown. Called
   * only for runs with a cost budget.
   */
  prices?(model: Model, promptTokens: number): Promise<ModelPrices | undefined>;
  /**
   * Whether a model without a known price is free, like a local one. `limits.unknown_price` overrides this value.
   * Default: false.
   */
  readonly isFree?: boolean | undefined;
  /**
   * Loads the code for the first request in advance, for instance when a server starts. Never uses the network. The
   * kernel ignores a rejection, because the first request reports the same error.
   */
  prepare?(): Promise<void>;
  /**
   * Streams the answer of a model. Rejects with `ProviderError` (kind, status, retryAfterMs; `malformed_answer` with a
   * hint for the model), never after a `finish`. An abort rejects with `signal.reason`.
   */
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk>;
  /**
   * Like `stream`, for a request without tools, whose model searches the web with the provider's own search. Passes
   * each result to `onResult`, possibly several times. The usage includes the price of the searches if it is known.
   * Undefined: the provider has no web search.
   */
  searchWeb?(
    request: ModelRequest,
    onResult: (result: WebSearchResult) => void,
    signal: AbortSignal,
  ): AsyncIterable<ModelChunk>;
  /** Closes the provider's sockets. Safe to call twice. */
  close(): Promise<void>;
}

/** Requested reasoning level. `""`: the model's default. */
export type ReasoningEffort = "" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";
