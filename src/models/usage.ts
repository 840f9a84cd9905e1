import type { ModelPrices, ModelUsage } from "../ports/model-provider.js";
import type { Usage } from "../ports/usage.js";

/**
 * Returns the cost of one model call in USD, from the first available source: the provider's reported cost, `prices`,
 * the provider's estimate in `usage.cost`, `fallbackPrices`, 0. Cached tokens are part of `inputTokens` and have their
 * own price.
 */
export function costOf(usage: ModelUsage, prices: ModelPrices | undefined, fallbackPrices?: ModelPrices): number {
  if (prices !== undefined && !usage.costReported) return calculateCost(usage, prices);
  return usage.cost ?? (fallbackPrices === undefined ? 0 : calculateCost(usage, fallbackPrices));
}

function calculateCost(usage: ModelUsage, prices: ModelPrices): number {
  const uncachedTokens = Math.max(0, usage.inputTokens - usage.cacheReadTokens - usage.cacheWriteTokens);
  const sum =
    uncachedTokens * prices.input +
    usage.cacheReadTokens * (prices.cacheRead ?? prices.input) +
    usage.cacheWriteTokens * (prices.cacheWrite ?? prices.input) +
    usage.outputTokens * prices.output;
  // Prices are in USD per million tokens.
  return sum / 1_000_000;
}

/** Rounds a cost in USD for clients: the last digits of sums of fractions are inexact. */
export function roundCost(cost: number): number {
  return Number(cost.toFixed(12));
}

/** The usage of one model call in the stored format. */
export function toUsage(usage: ModelUsage, prices: ModelPrices | undefined, fallbackPrices?: ModelPrices): Usage {
  return {
    promptTokens: usage.inputTokens,
    completionTokens: usage.outputTokens,
    totalTokens: usage.inputTokens + usage.outputTokens,
    cost: costOf(usage, prices, fallbackPrices),
  };
}
