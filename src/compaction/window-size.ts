import type { Model } from "../ports/model-provider.js";
import { BYTES_PER_TOKEN } from "../models/estimate.js";
import type { CompactionOptions } from "./compaction.js";

/** Assumed window of a model that reports none, in tokens. */
export const DEFAULT_WINDOW_TOKENS = 128_000;
/** Maximum tokens reserved for the answer. The reserve is never more than a fifth of the window. */
const MAX_ANSWER_TOKENS = 4_096;
/** Maximum share of the limit for instructions and tools; larger ones are shortened. */
const MAX_PREFIX_SHARE = 0.6;
/** Maximum share of the tokens for messages that one tool output may take. */
const MAX_OUTPUT_SHARE = 1 / 3;
/** Minimum bytes of a tool output before it is cut, even in a small window. */
const MIN_OUTPUT_BYTES = 600;

/** Sizes of a model's context window. */
export interface WindowSize {
  /** Tokens of prompt and answer together. */
  readonly size: number;
  /** Tokens of a prompt above which it is compacted. */
  readonly limit: number;
  /** Whether the model or the options name the size. */
  readonly isKnown: boolean;
}

/** Computes the sizes from the options and the model. */
export function computeWindowSize(
  { threshold, contextWindow }: Required<Pick<CompactionOptions, "threshold" | "contextWindow">>,
  model: Pick<Model, "contextWindow" | "maxOutput">,
): WindowSize {
  const knownSize = contextWindow > 0 ? contextWindow : model.contextWindow;
  const size = knownSize ?? DEFAULT_WINDOW_TOKENS;
  const answerTokens = Math.min(MAX_ANSWER_TOKENS, model.maxOutput ?? MAX_ANSWER_TOKENS, Math.floor(size / 5));
  return { size, limit: Math.floor(Math.min(size * threshold, size - answerTokens)), isKnown: knownSize !== undefined };
}

/** Maximum bytes of system prompt and tools in a prompt of `limit` tokens. */
export function computeMaxPrefixBytes(limit: number): number {
  return Math.floor(Math.max(0, limit) * MAX_PREFIX_SHARE) * BYTES_PER_TOKEN;
}

/** Maximum bytes of one tool output in a prompt of `limit` tokens. */
export function computeMaxOutputBytes(limit: number, prefixTokens: number): number {
  return Math.max(MIN_OUTPUT_BYTES, Math.floor((limit - prefixTokens) * MAX_OUTPUT_SHARE) * BYTES_PER_TOKEN);
}
