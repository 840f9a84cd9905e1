import type { ModelPrices, ModelUsage } from "gantry/plugin";
import { asObject } from "./json.js";
import type { Settings } from "./options.js";
import type { ReportedUsage } from "./usage.js";

/** Source of prices that are newer than the prices of the package. */
export interface NewerPrices {
  /** Adds the prices to the list. Never rejects. */
  load(list: PriceList): Promise<void>;
}

export type PriceList = typeof import("@pydantic/genai-prices");
type PriceCalculation = NonNullable<ReturnType<PriceList["calcPrice"]>>;
type ListedProvider = NonNullable<ReturnType<PriceList["findProvider"]>>;

/** Models that the price list contains with an old price: their names now refer to another model. */
const MODEL_ALIASES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  deepseek: { "deepseek-chat": "deepseek-v4-flash", "deepseek-reasoner": "deepseek-v4-flash" },
};

let listPromise: Promise<PriceList | undefined> | undefined;
let newerPrices: NewerPrices | undefined;

/**
 * Loads the public price list, which takes 20 MB of memory. Resolves with undefined if the package is not installed.
 */
export function loadPriceList(): Promise<PriceList | undefined> {
  // Prices are optional.
  listPromise ??= loadPackage().catch(() => undefined);
  return listPromise;
}

/** Sets the source of newer prices. The package has one list for the whole process. */
export function setNewerPrices(source: NewerPrices): void {
  newerPrices = source;
  listPromise = undefined;
}

async function loadPackage(): Promise<PriceList> {
  const list = await import("@pydantic/genai-prices");
  await newerPrices?.load(list);
  return list;
}

/** Cost in USD as reported by the provider; undefined if it reports none. */
export function readReportedCost({ raw }: ReportedUsage, { quirks }: Settings): number | undefined {
  const cost = raw.cost;
  switch (quirks.cost) {
    case "usage.cost": {
      // With the user's own key the router reports its fee, and the provider's cost separately.
      const upstreamCost = raw.is_byok === true ? toUsd(asObject(raw.cost_details).upstream_inference_cost) : undefined;
      const routerCost = toUsd(cost);
      return routerCost === undefined ? undefined : routerCost + (upstreamCost ?? 0);
    }
    case "usage.cost.total_cost":
      return toUsd((cost as { total_cost?: unknown } | undefined)?.total_cost);
    case "usage.cost_in_usd_ticks": {
      return toUsd(raw.cost_in_usd_ticks, USD_PER_TICK);
    }
    default:
      return undefined;
  }
}

/** Cost in USD that a third-party package reports in the usage or in the metadata; undefined if it reports none. */
export function readPackageCost({ raw, metadata }: ReportedUsage): number | undefined {
  const sources = [
    raw,
    ...Object.values(metadata ?? {}).flatMap((packageMetadata) => [
      asObject(packageMetadata.usage),
      asObject(packageMetadata),
    ]),
  ];
  for (const source of sources) {
    const { cost } = source;
    const usd =
      toUsd(cost) ?? toUsd(asObject(cost).total_cost) ?? toUsd(asObject(cost).totalCost) ?? toUsd(source.total_cost);
    if (usd !== undefined) return usd;
    const tickCost = toUsd(source.cost_in_usd_ticks, USD_PER_TICK) ?? toUsd(source.costInUsdTicks, USD_PER_TICK);
    if (tickCost !== undefined) return tickCost;
  }
  return undefined;
}

/** Cost in USD from the public price list; undefined for unknown models. */
export async function findListedCost(
  usage: PricedTokens,
  modelId: string,
  settings: Pick<Settings, "priceProvider">,
  date = new Date(),
): Promise<number | undefined> {
  if (settings.priceProvider === "") return undefined;
  const prices = await loadPriceList();
  if (prices === undefined) return undefined;
  const counts = {
    // Input tokens include cached ones, both in the list and here.
    input_tokens: usage.inputTokens,
    cache_read_tokens: usage.cacheReadTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    output_tokens: usage.outputTokens,
  };
  try {
    return findPrice(prices, counts, modelId, { providerId: settings.priceProvider, date })?.total_price;
  } catch {
    // The counts are contradictory. An unknown price is better than a wrong one.
    return undefined;
  }
}

type PricedTokens = Pick<ModelUsage, "inputTokens" | "cacheReadTokens" | "cacheWriteTokens" | "outputTokens">;

/**
 * Prices in USD per million tokens for a prompt of this length, because long prompts may have a higher price. Undefined
 * for unknown models.
 */
export async function findListedPrices(
  modelId: string,
  promptTokens: number,
  settings: Pick<Settings, "priceProvider">,
): Promise<ModelPrices | undefined> {
  const tokens = Math.max(1, promptTokens);
  const date = new Date();
  const calculateCost = (changes: Partial<PricedTokens>) => {
    const counts = { inputTokens: tokens, cacheReadTokens: 0, cacheWriteTokens: 0, outputTokens: 0, ...changes };
    return findListedCost(counts, modelId, settings, date);
  };
  const [promptCost, cacheWriteCost, answerCost] = [
    await calculateCost({}),
    await calculateCost({ cacheWriteTokens: tokens }),
    await calculateCost({ outputTokens: tokens }),
  ];
  if (promptCost === undefined || answerCost === undefined) return undefined;
  const perMillion = (usd: number) => (usd / tokens) * 1_000_000;
  const cacheWrite = cacheWriteCost === undefined ? {} : { cacheWrite: perMillion(cacheWriteCost) };
  return { input: perMillion(promptCost), output: perMillion(answerCost - promptCost), ...cacheWrite };
}

/**
 * Ids of a provider's models in the public price list, without deprecated models, variants with a colon (`:free`) and
 * Google's Claude models. Z.ai's ids become lower case. Empty for local servers and for providers without a price list.
 */
export async function listModelIds({ isLocal, priceProvider }: Settings): Promise<string[]> {
  if (isLocal || priceProvider === "" || priceProvider === undefined) return [];
  const provider = (await loadPriceList())?.findProvider({ providerId: priceProvider });
  const currentModels = (provider?.models ?? []).filter(
    ({ id, deprecated }) => deprecated !== true && !id.includes(":"),
  );
  if (priceProvider === "zai") return currentModels.map(({ id }) => id.toLowerCase());
  return currentModels.map(({ id }) => id).filter((id) => priceProvider !== "google" || !id.startsWith("claude"));
}

/**
 * Returns a function that finds the name and the context window (in tokens) of a model in the price list. The function
 * returns undefined for unknown models and for providers without a price list.
 */
export async function loadModelLookup(
  settings: Settings,
): Promise<(modelId: string) => { name?: string; contextWindow?: number } | undefined> {
  if (settings.isLocal || settings.priceProvider === "" || settings.priceProvider === undefined) return () => undefined;
  const prices = await loadPriceList();
  const providerId = settings.priceProvider;
  if (prices?.findProvider({ providerId }) === undefined) return () => undefined;
  const date = new Date();
  return (modelId) => {
    try {
      const calculation = findPrice(prices, { input_tokens: 1, output_tokens: 1 }, modelId, { providerId, date });
      if (calculation === undefined) return undefined;
      const { name, context_window: contextWindow } = calculation.model;
      return { name, contextWindow };
    } catch {
      return undefined;
    }
  };
}

/** Unit of the cost that xAI reports. */
const USD_PER_TICK = 1e-10;
/** Maximum plausible cost of one call. Larger numbers could make the sum of a session infinite. */
const MAX_CALL_COST_USD = 1e9;

/** Converts a number, or a text with a number, in units of `unit` USD; undefined for implausible values. */
function toUsd(value: unknown, usdPerUnit = 1): number | undefined {
  const number = typeof value === "string" && /^\d+(\.\d+)?(e-?\d+)?$/i.test(value) ? Number(value) : value;
  const usd = typeof number === "number" ? number * usdPerUnit : NaN;
  return usd >= 0 && usd <= MAX_CALL_COST_USD ? usd : undefined;
}

/**
 * The price on a date, by the model id or another spelling of the id. Undefined if the model or its price is unknown.
 */
function findPrice(
  list: PriceList,
  usage: Parameters<PriceList["calcPrice"]>[0],
  modelId: string,
  { providerId, date }: { providerId: string | undefined; date: Date },
): PriceCalculation | undefined {
  const options = { ...(providerId === undefined ? {} : { providerId }), timestamp: date };
  const alias = MODEL_ALIASES[providerId ?? ""]?.[modelId.toLowerCase()];
  const calculate = (id: string | undefined) => (id === undefined ? null : list.calcPrice(usage, id, options));
  const calculation = calculate(alias) ?? calculate(modelId) ?? calculate(findIdBySpelling(list, modelId, providerId));
  // A model without a price is not free.
  return calculation === null || Object.keys(calculation.model_price).length === 0 ? undefined : calculation;
}

/** Model ids by normalized spelling, for each provider; undefined for an ambiguous spelling. */
const idsByProvider = new WeakMap<ListedProvider, ReadonlyMap<string, string | undefined>>();

/**
 * The list's id of a model that the list spells differently, like `llama3.3-70b`. Undefined if no id or several match.
 */
function findIdBySpelling(list: PriceList, modelId: string, providerId: string | undefined): string | undefined {
  const provider = providerId === undefined ? undefined : list.findProvider({ providerId });
  if (provider === undefined) return undefined;
  let spellings = idsByProvider.get(provider);
  if (spellings === undefined) {
    const idsBySpelling = new Map<string, string | undefined>();
    for (const { id } of provider.models)
      idsBySpelling.set(normalizeId(id), idsBySpelling.has(normalizeId(id)) ? undefined : id);
    idsByProvider.set(provider, (spellings = idsBySpelling));
  }
  return spellings.get(normalizeId(modelId));
}

/** Reduces an id to lower-case letters, digits, dots and colons, so that spellings of one id become equal. */
function normalizeId(id: string): string {
  const modelName = id.slice(id.lastIndexOf("/") + 1).toLowerCase();
  // A point between digits is part of a number: 3.1 is not 31.
  return modelName
    .replace(/-preview$/, "")
    .replace(/(?<=\d)[.-](?=\d)/g, ".")
    .replace(/[^a-z0-9.:]/g, "");
}
