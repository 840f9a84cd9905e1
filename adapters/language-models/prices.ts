import type { ModelPrices, ModelUsage } from "gantry/plugin";
import { asObject } from "./json.js";
import type { Settings } from "./options.js";
import { priceList, findPrice } from "./price-list.js";
import type { ReportedUsage } from "./usage.js";

/** Cost in USD as reported by the provider; undefined if it reports none. */
export function reportedCost({ raw }: ReportedUsage, { quirks }: Settings): number | undefined {
  const cost = raw.cost;
  switch (quirks.cost) {
    case "usage.cost": {
      // With the user's own key the router reports its fee, and the provider's cost separately.
      const upstream = raw.is_byok === true ? amount(asObject(raw.cost_details).upstream_inference_cost) : undefined;
      const routerCost = amount(cost);
      return routerCost === undefined ? undefined : routerCost + (upstream ?? 0);
    }
    case "usage.cost.total_cost":
      return amount((cost as { total_cost?: unknown } | undefined)?.total_cost);
    case "usage.cost_in_usd_ticks": {
      return amount(raw.cost_in_usd_ticks, USD_PER_TICK);
    }
    default:
      return undefined;
  }
}

/** Cost in USD as passed on by a third-party package, in the usage or in the metadata. */
export function passedCost({ raw, metadata }: ReportedUsage): number | undefined {
  const places = [
    raw,
    ...Object.values(metadata ?? {}).flatMap((packageMetadata) => [
      asObject(packageMetadata.usage),
      asObject(packageMetadata),
    ]),
  ];
  for (const place of places) {
    const { cost } = place;
    const usd =
      amount(cost) ?? amount(asObject(cost).total_cost) ?? amount(asObject(cost).totalCost) ?? amount(place.total_cost);
    if (usd !== undefined) return usd;
    const tickCost = amount(place.cost_in_usd_ticks, USD_PER_TICK) ?? amount(place.costInUsdTicks, USD_PER_TICK);
    if (tickCost !== undefined) return tickCost;
  }
  return undefined;
}

/** Cost in USD from the public price list; undefined for unknown models. */
export async function listedCost(
  usage: Counts,
  modelId: string,
  settings: Pick<Settings, "priceProvider">,
  at = new Date(),
): Promise<number | undefined> {
  if (settings.priceProvider === "") return undefined;
  const prices = await priceList();
  if (prices === undefined) return undefined;
  const counts = {
    // Input tokens include cached ones, both in the list and here.
    input_tokens: usage.inputTokens,
    cache_read_tokens: usage.cacheReadTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    output_tokens: usage.outputTokens,
  };
  try {
    return findPrice(prices, counts, modelId, { providerId: settings.priceProvider, at })?.total_price;
  } catch {
    // Contradictory counts: no price is better than a wrong one.
    return undefined;
  }
}

type Counts = Pick<ModelUsage, "inputTokens" | "cacheReadTokens" | "cacheWriteTokens" | "outputTokens">;

/** Prices for a prompt of this length, because long prompts may have a higher price. Undefined for unknown models. */
export async function listedPrices(
  modelId: string,
  promptTokens: number,
  settings: Pick<Settings, "priceProvider">,
): Promise<ModelPrices | undefined> {
  const tokens = Math.max(1, promptTokens);
  const at = new Date();
  const cost = (changes: Partial<Counts>) => {
    const counts = { inputTokens: tokens, cacheReadTokens: 0, cacheWriteTokens: 0, outputTokens: 0, ...changes };
    return listedCost(counts, modelId, settings, at);
  };
  const [prompt, written, answered] = [
    await cost({}),
    await cost({ cacheWriteTokens: tokens }),
    await cost({ outputTokens: tokens }),
  ];
  if (prompt === undefined || answered === undefined) return undefined;
  const perMillion = (usd: number) => (usd / tokens) * 1_000_000;
  const cacheWrite = written === undefined ? {} : { cacheWrite: perMillion(written) };
  return { input: perMillion(prompt), output: perMillion(answered - prompt), ...cacheWrite };
}

/** Ids of a provider's models in the public price list, without deprecated ones. */
export async function listedModels({ local, priceProvider }: Settings): Promise<string[]> {
  if (local || priceProvider === "" || priceProvider === undefined) return [];
  const provider = (await priceList())?.findProvider({ providerId: priceProvider });
  const current = (provider?.models ?? []).filter(({ id, deprecated }) => deprecated !== true && !id.includes(":"));
  if (priceProvider === "zai") return current.map(({ id }) => id.toLowerCase());
  return current.map(({ id }) => id).filter((id) => priceProvider !== "google" || !id.startsWith("claude"));
}

/** Returns a function that gives name and context window of a model in the price list. */
export async function listedWindows(
  settings: Settings,
): Promise<(modelId: string) => { name?: string; contextWindow?: number } | undefined> {
  if (settings.local || settings.priceProvider === "" || settings.priceProvider === undefined) return () => undefined;
  const prices = await priceList();
  const providerId = settings.priceProvider;
  if (prices?.findProvider({ providerId }) === undefined) return () => undefined;
  const at = new Date();
  return (modelId) => {
    try {
      const calculation = findPrice(prices, { input_tokens: 1, output_tokens: 1 }, modelId, { providerId, at });
      if (calculation === undefined) return undefined;
      const { name, context_window: contextWindow } = calculation.model;
      return { name, contextWindow };
    } catch {
      return undefined;
    }
  };
}

/** xAI reports ticks. */
const USD_PER_TICK = 1e-10;
/** Maximum plausible cost of one call. A larger one would make the sum of a session infinite. */
const MAX_USD = 1e9;

/** Converts a number, or a text with a number, in units of `unit` USD; undefined for implausible values. */
function amount(value: unknown, unit = 1): number | undefined {
  const number = typeof value === "string" && /^\d+(\.\d+)?(e-?\d+)?$/i.test(value) ? Number(value) : value;
  const usd = typeof number === "number" ? number * unit : NaN;
  return usd >= 0 && usd <= MAX_USD ? usd : undefined;
}
