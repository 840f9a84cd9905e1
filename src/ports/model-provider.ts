import type { ModelMessage, Opaque } from "./message.js";
import type { JsonSchema, ToolSpec } from "./tool.js";

/** USD per million tokens. */
export interface ModelPrices {
  input: number;
  output: number;
  /** Default: `input`. */
  cacheRead?: number | undefined;
  /** Default: `input`. */
  cacheWrite?: number | undefined;
}

/** A model on offer. */
export interface Model {
  id: string;
  /** For people; the id where the provider has no name for it. */
  name: string;
  ownedBy: string;
  /** Tokens of prompt and completion together; left out when unknown. */
  contextWindow?: number | undefined;
  /** Most tokens of one answer. */
  maxOutput?: number | undefined;
  /** Whether it reasons, so that an effort can be chosen. */
  reasoning?: boolean | undefined;
  /** Whether nobody said that it is there: it is known by heart, and no list was to be had yet. */
  assumed?: true | undefined;
  /** Efforts that can be asked of it, the least first; none where it thinks as it likes. Default: unknown, asked as said. */
  efforts?: readonly Exclude<ReasoningEffort, "">[] | undefined;
  /** What it takes beside text. Default: unknown, treated as text alone. */
  input?: readonly ("text" | "image" | "pdf")[] | undefined;
  prices?: ModelPrices | undefined;
}

/** One question to a model. */
export interface ModelRequest {
  /** The entry of the catalogue, with limits and what it takes. */
  model: Model;
  /** Stable from call to call, so that providers can cache the prefix. */
  system: string;
  /** Valid: every tool call answered right behind it, roles in order. Opaque fields only of this very pair. */
  messages: readonly ModelMessage[];
  /** Sorted by name. */
  tools: readonly ToolSpec[];
  temperature?: number | undefined;
  /** Most tokens of the answer; default: the model's own limit. */
  maxTokens?: number | undefined;
  /** One that the model offers, where that is known. */
  effort: ReasoningEffort;
  /** Whether thinking is worth its time. Default: true. Of titles and summaries it is not: such a call has an effort that is small, and need not think at all. */
  thinks?: boolean | undefined;
  /** JSON Schema that the answer's text is to fit once it makes no calls. Only for providers that can see to it without harm; the kernel looks by itself. */
  outputSchema?: JsonSchema | undefined;
  /** The same for all calls of one session. */
  cacheKey: string;
  /** What must be over before the question leaves: that it is stored. Only for providers that say `waits`; others are asked then. */
  before?: Promise<void> | undefined;
}

/** Usage as a provider reports it. */
export interface ModelUsage {
  /** Cached ones included. */
  inputTokens: number;
  /** Reasoning included. */
  outputTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  reasoningTokens: number;
  /** USD: as the provider reported it (`costReported`), else from public prices, where known. Configured prices win over public ones. */
  cost?: number | undefined;
  /** Whether `cost` is the provider's own word. */
  costReported?: boolean | undefined;
  /** Whether the provider reported nothing and these are estimates. */
  estimated?: boolean | undefined;
}

/** Why a model stopped, in the words of the run's `finishReason`; `null` when the provider gave no known reason. */
export type FinishReason = "stop" | "length" | "content_filter" | "tool_calls" | null;

/** A piece of an answer. Chunks with the same `block` belong to one part. */
export type ModelChunk =
  | { type: "text" | "reasoning"; block: string; text: string; opaque?: Opaque["data"] }
  /** Arguments of a call as they arrive; feeds the watchdog, is never shown. */
  | { type: "tool_input"; text: string }
  | { type: "tool_call"; id: string; name: string; arguments: string; opaque?: Opaque["data"] }
  /** Exactly once, and last. */
  | { type: "finish"; reason: FinishReason; usage: ModelUsage };

/** A source of language models. Depends on no vendor package. */
export interface ModelProvider {
  /** Identifier that clients name it by; no `/` and no white space. */
  readonly name: string;
  /** Longest silence between two chunks, in ms, before the kernel gives a call up. */
  readonly idleTimeoutMs: number;
  /** How often the kernel asks again after a fault that may pass. */
  readonly maxRetries: number;
  /** Longest wait that a provider may ask for before the kernel gives up instead, in ms; 60,000 is usual. */
  readonly maxWaitMs: number;
  /** Whether it waits for a request's `before` itself, and makes ready meanwhile what it sends. Default: false. */
  readonly waits?: boolean | undefined;
  /** Models known without asking anyone (from configuration). Never goes to the network. */
  readonly known: readonly Model[];
  /** Models on offer, the known ones included. May go to the network; the kernel caches the answer. */
  models(signal: AbortSignal): Promise<Model[]>;
  /**
   * Models that it is known to have had, without asking anyone: they serve until the first list, where that is refused or
   * nobody can be reached. Left out or empty: it knows none by heart.
   */
  assumed?(): Promise<Model[]>;
  /**
   * What a model takes for a prompt of so many tokens, where its entry of the catalogue does not say; undefined: nobody
   * knows. Asked only where a run has a budget of money.
   */
  prices?(model: Model, promptTokens: number): Promise<ModelPrices | undefined>;
  /** Whether a model without a known price costs nothing, as a local one does. `limits.unknown_price` wins. Default false. */
  readonly isFree?: boolean | undefined;
  /**
   * Loads the code that the first question needs, as one that listens does before its first client asks. Never goes to the
   * network. The kernel ignores a rejection: the first question reports the fault. Left out: nothing is loaded early.
   */
  prepare?(): Promise<void>;
  /** Ask a model. A fault rejects with `ProviderError` (kind, status, retryAfterMs; `malformed_answer` with a hint for the model), never after a `finish`; an abort with `signal.reason`. */
  stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelChunk>;
  /** Let go of sockets. Safe to call twice. */
  close(): Promise<void>;
}
/** Level of reasoning asked of a model; `""` is the model's default. */
export type ReasoningEffort = "" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";
