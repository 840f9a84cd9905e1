import type { ModelPrices, ModelUsage } from "../ports/model-provider.js";
import type { Usage } from "../ports/usage.js";

/**
 * Cost of one model call in USD. Sources, in order: the provider's reported cost, configured prices, public prices,
 * `unknown`, 0. Cached tokens are part of `inputTokens` and have their own price.
 */
export function costOf(usage: ModelUsage, prices: ModelPrices | undefined, unknown?: ModelPrices): number {
  if (prices !== undefined && !usage.costReported) return priced(usage, prices);
  return usage.cost ?? (unknown === undefined ? 0 : priced(usage, unknown));
}

function priced(usage: ModelUsage, prices: ModelPrices): number {
  const fresh = Math.max(0, usage.inputTokens - usage.cacheReadTokens - usage.cacheWriteTokens);
  const sum =
    fresh * prices.input +
    usage.cacheReadTokens * (prices.cacheRead ?? prices.input) +
    usage.cacheWriteTokens * (prices.cacheWrite ?? prices.input) +
    usage.outputTokens * prices.output;
  return sum / 1_000_000;
}

/** Cost in USD for clients. Sums of fractions drift in their last digits, which mean nothing. */
export function roundCost(cost: number): number {
  return Number(cost.toFixed(12));
}

/** The usage of one model call in the stored format. */
export function toUsage(usage: ModelUsage, prices: ModelPrices | undefined, unknown?: ModelPrices): Usage {
  return {
    promptTokens: usage.inputTokens,
    completionTokens: usage.outputTokens,
    totalTokens: usage.inputTokens + usage.outputTokens,
    cost: costOf(usage, prices, unknown),
  };
}
