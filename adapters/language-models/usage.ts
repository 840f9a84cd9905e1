import { estimatePrompt, type FinishReason, type ModelRequest, type ModelUsage } from "gantry/plugin";
import { asObject } from "./json.js";
import type { Metadata } from "./language-model.js";

/** Usage as reported by a provider's package, with the provider's own data. */
export interface ReportedUsage {
  usage: ModelUsage;
  /** The usage as the provider sent it, for the cost. */
  raw: Readonly<Record<string, unknown>>;
  /** Other metadata of the package, by the package's name. */
  metadata?: Metadata;
}

/** Reads the usage of any specification version; undefined if the provider reported none. */
export function readUsage(value: unknown): ReportedUsage | undefined {
  const source = asObject(value);
  const isNested = typeof source.inputTokens === "object" || typeof source.outputTokens === "object";
  const input = isNested ? asObject(source.inputTokens) : {};
  const output = isNested ? asObject(source.outputTokens) : {};
  const inputTokens = isNested ? toTokenCount(input.total) : toTokenCount(source.inputTokens ?? source.promptTokens);
  const outputTokens = isNested
    ? toTokenCount(output.total)
    : toTokenCount(source.outputTokens ?? source.completionTokens);
  // Servers that do not count tokens report nothing, or zero for both.
  if ((inputTokens ?? 0) === 0 && (outputTokens ?? 0) === 0) return undefined;
  return {
    usage: {
      inputTokens: inputTokens ?? 0,
      outputTokens: outputTokens ?? 0,
      cacheReadTokens: toTokenCount(isNested ? input.cacheRead : source.cachedInputTokens) ?? 0,
      cacheWriteTokens: toTokenCount(isNested ? input.cacheWrite : undefined) ?? 0,
      reasoningTokens: toTokenCount(isNested ? output.reasoning : source.reasoningTokens) ?? 0,
    },
    raw: asObject(source.raw),
  };
}

/** Low estimate, so that the token count is rather too high. */
const BYTES_PER_TOKEN = 3;

/** Estimates the usage from the bytes of prompt and answer, for a provider that reports none. */
export function estimateUsage(request: ModelRequest, outputBytes: number): ModelUsage {
  return {
    inputTokens: estimatePrompt(request),
    outputTokens: Math.ceil(outputBytes / BYTES_PER_TOKEN),
    cacheReadTokens: 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
    estimated: true,
  };
}

const FINISH_REASONS: Readonly<Record<string, FinishReason>> = {
  stop: "stop",
  length: "length",
  "content-filter": "content_filter",
  "tool-calls": "tool_calls",
};

/**
 * Reads the finish reason of any specification version: a string, or `{ unified, raw }`. `reason` is null if it is
 * unknown. `message`: the provider's explanation.
 */
export function readReason(value: unknown): {
  reason: FinishReason;
  hasFailed: boolean;
  raw: unknown;
  message: string | undefined;
} {
  const unified = typeof value === "string" ? value : asObject(value).unified;
  const { raw, message } = asObject(value);
  const reason = raw === "refusal" ? "content_filter" : (FINISH_REASONS[String(unified)] ?? null);
  return { reason, hasFailed: unified === "error", raw, message: typeof message === "string" ? message : undefined };
}

/** Maximum plausible tokens of one call. Larger numbers could make the sum of a session infinite. */
const MAX_PLAUSIBLE_TOKENS = 1e12;

function toTokenCount(value: unknown): number | undefined {
  return typeof value === "number" && value >= 0 && value <= MAX_PLAUSIBLE_TOKENS ? Math.round(value) : undefined;
}
