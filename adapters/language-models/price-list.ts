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

/**
 * The price on a date, by the model id or another spelling of the id. Undefined if the model or its price is unknown.
 */
export function findPrice(
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
