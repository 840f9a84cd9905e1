import type { ModelPrices, ModelUsage } from "gantry/plugin";
import { bag } from "./json.js";
import type { Settings } from "./options.js";
import { priceList, pricedBy } from "./price-list.js";
import type { ReportedUsage } from "./usage.js";

/** USD as the provider reported it. */
export function reportedCost({ raw }: ReportedUsage, { quirks }: Settings): number | undefined {
  const cost = raw.cost;
  switch (quirks.cost) {
    case "usage.cost": {
      // With a key of one's own the router takes its fee, and whoever is behind it the rest.
      const upstream = raw.is_byok === true ? amount(bag(raw.cost_details).upstream_inference_cost) : undefined;
      const own = amount(cost);
      return own === undefined ? undefined : own + (upstream ?? 0);
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

/** USD as a package of others passes it on, in the usage or beside it. */
export function passedCost({ raw, metadata }: ReportedUsage): number | undefined {
  const places = [raw, ...Object.values(metadata ?? {}).flatMap((own) => [bag(own.usage), bag(own)])];
  for (const place of places) {
    const { cost } = place;
    const found =
      amount(cost) ?? amount(bag(cost).total_cost) ?? amount(bag(cost).totalCost) ?? amount(place.total_cost);
    if (found !== undefined) return found;
    const ofTicks = amount(place.cost_in_usd_ticks, USD_PER_TICK) ?? amount(place.costInUsdTicks, USD_PER_TICK);
    if (ofTicks !== undefined) return ofTicks;
  }
  return undefined;
}

/** USD from the public price list; undefined when it does not know the model. */
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
    // The list's input tokens include cached ones, as ours do.
    input_tokens: usage.inputTokens,
    cache_read_tokens: usage.cacheReadTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    output_tokens: usage.outputTokens,
  };
  try {
    return pricedBy(prices, counts, modelId, { providerId: settings.priceProvider, at })?.total_price;
  } catch {
    // Counts that contradict each other: no price is better than a wrong one.
    return undefined;
  }
}

type Counts = Pick<ModelUsage, "inputTokens" | "cacheReadTokens" | "cacheWriteTokens" | "outputTokens">;

/** Of a prompt of so many tokens, since long ones may be dearer; undefined when the public price list does not know the model. */
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

/** Ids of the models that the public price list has of a provider, but for those that it calls old. */
export async function listedModels({ local, priceProvider }: Settings): Promise<string[]> {
  if (local || priceProvider === "" || priceProvider === undefined) return [];
  const provider = (await priceList())?.findProvider({ providerId: priceProvider });
  const current = (provider?.models ?? []).filter(({ id, deprecated }) => deprecated !== true && !id.includes(":"));
  if (priceProvider === "zai") return current.map(({ id }) => id.toLowerCase());
  return current.map(({ id }) => id).filter((id) => priceProvider !== "google" || !id.startsWith("claude"));
}

/** Context window of a model, where the price list tells it. */
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
      const found = pricedBy(prices, { input_tokens: 1, output_tokens: 1 }, modelId, { providerId, at });
      if (found === undefined) return undefined;
      const { name, context_window: contextWindow } = found.model;
      return { name, contextWindow };
    } catch {
      return undefined;
    }
  };
}

/** xAI reports ticks. */
const USD_PER_TICK = 1e-10;
/** A larger cost of one call is no cost, and would make the sum of a session infinite. */
const MAX_USD = 1e9;

/** USD of a number, or of a text that is one, in units of `unit` USD. */
function amount(value: unknown, unit = 1): number | undefined {
  const number = typeof value === "string" && /^\d+(\.\d+)?(e-?\d+)?$/i.test(value) ? Number(value) : value;
  const usd = typeof number === "number" ? number * unit : NaN;
  return usd >= 0 && usd <= MAX_USD ? usd : undefined;
}
