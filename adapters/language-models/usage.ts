import { estimatePrompt, type FinishReason, type ModelRequest, type ModelUsage } from "gantry/plugin";
import { bag } from "./json.js";
import type { Metadata } from "./language-model.js";

/** Usage as one provider's package reports it, plus what it said itself. */
export interface ReportedUsage {
  usage: ModelUsage;
  /** The provider's own words, for the cost. */
  raw: Readonly<Record<string, unknown>>;
  /** What a package tells beside the usage, by its own name. */
  metadata?: Metadata;
}

/** Usage of any specification; undefined when the provider reported none. */
export function readUsage(value: unknown): ReportedUsage | undefined {
  const source = bag(value);
  const nested = typeof source.inputTokens === "object" || typeof source.outputTokens === "object";
  const input = nested ? bag(source.inputTokens) : {};
  const output = nested ? bag(source.outputTokens) : {};
  const inputTokens = nested ? count(input.total) : count(source.inputTokens ?? source.promptTokens);
  const outputTokens = nested ? count(output.total) : count(source.outputTokens ?? source.completionTokens);
  // Servers that do not count say nothing, or zero to both.
  if ((inputTokens ?? 0) === 0 && (outputTokens ?? 0) === 0) return undefined;
  return {
    usage: {
      inputTokens: inputTokens ?? 0,
      outputTokens: outputTokens ?? 0,
      cacheReadTokens: count(nested ? input.cacheRead : source.cachedInputTokens) ?? 0,
      cacheWriteTokens: count(nested ? input.cacheWrite : undefined) ?? 0,
      reasoningTokens: count(nested ? output.reasoning : source.reasoningTokens) ?? 0,
    },
    raw: bag(source.raw),
  };
}

/** A guess from the bytes that went and came, for a provider that tells nothing. */
export function estimateUsage(request: ModelRequest, outputBytes: number): ModelUsage {
  return {
    inputTokens: estimatePrompt(request),
    outputTokens: Math.ceil(outputBytes / 3),
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
    estimated: true,
  };
}

const REASONS: Readonly<Record<string, FinishReason>> = {
  stop: "stop",
  length: "length",
  "content-filter": "content_filter",
  "tool-calls": "tool_calls",
};

/** The reason of any specification: a word, or `{ unified, raw }`; `message`: what the provider says about it. */
export function readReason(value: unknown): {
  reason: FinishReason;
  failed: boolean;
  raw: unknown;
  message: string | undefined;
} {
  const unified = typeof value === "string" ? value : bag(value).unified;
  const { raw, message } = bag(value);
  const reason = raw === "refusal" ? "content_filter" : (REASONS[String(unified)] ?? null);
  return { reason, failed: unified === "error", raw, message: typeof message === "string" ? message : undefined };
}

/** A larger count of one call is no count, and would make the sum of a session infinite. */
const MAX_TOKENS = 1e12;

function count(value: unknown): number | undefined {
  return typeof value === "number" && value >= 0 && value <= MAX_TOKENS ? Math.round(value) : undefined;
}
