/** Source of prices that are newer than the package's. */
export interface NewerPrices {
  /** Adds the prices to the list. Never rejects. */
  load(list: PriceList): Promise<void>;
}

export type PriceList = typeof import("@pydantic/genai-prices");
type Priced = NonNullable<ReturnType<PriceList["calcPrice"]>>;
type Listed = NonNullable<ReturnType<PriceList["findProvider"]>>;

/** Model names that now refer to another model and have its price; the list contains the old price. */
const ALIASES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  deepseek: { "deepseek-chat": "deepseek-v4-flash", "deepseek-reasoner": "deepseek-v4-flash" },
};

let loading: Promise<PriceList | undefined> | undefined;
let newerPrices: NewerPrices | undefined;

/** The public price list. It is loaded on demand, because it takes 20 MB. Undefined if the package is not installed. */
export function priceList(): Promise<PriceList | undefined> {
  // Prices are optional.
  loading ??= open().catch(() => undefined);
  return loading;
}

/** Sets the source of newer prices. The package has one list for the whole process. */
export function preferPrices(newer: NewerPrices): void {
  newerPrices = newer;
  loading = undefined;
}

async function open(): Promise<PriceList> {
  const list = await import("@pydantic/genai-prices");
  await newerPrices?.load(list);
  return list;
}

/** The price of a model by its id, or by another spelling of the id. Undefined if the model or its price is unknown. */
export function findPrice(
  list: PriceList,
  usage: Parameters<PriceList["calcPrice"]>[0],
  modelId: string,
  { providerId, at }: { providerId: string | undefined; at: Date },
): Priced | undefined {
  const options = { ...(providerId === undefined ? {} : { providerId }), timestamp: at };
  const alias = ALIASES[providerId ?? ""]?.[modelId.toLowerCase()];
  const calculate = (id: string | undefined) => (id === undefined ? null : list.calcPrice(usage, id, options));
  const calculation = calculate(alias) ?? calculate(modelId) ?? calculate(findSpelling(list, modelId, providerId));
  // A model without a price is not free.
  return calculation === null || Object.keys(calculation.model_price).length === 0 ? undefined : calculation;
}

const SPELLINGS = new WeakMap<Listed, ReadonlyMap<string, string | undefined>>();

/** The id of a model that the list spells differently, like `llama3.3-70b` or `gemini-3-flash`. */
function findSpelling(list: PriceList, modelId: string, providerId: string | undefined): string | undefined {
  const provider = providerId === undefined ? undefined : list.findProvider({ providerId });
  if (provider === undefined) return undefined;
  let spellings = SPELLINGS.get(provider);
  if (spellings === undefined) {
    const idsBySpelling = new Map<string, string | undefined>();
    // Ambiguous spellings are not used.
    for (const { id } of provider.models)
      idsBySpelling.set(normalizeId(id), idsBySpelling.has(normalizeId(id)) ? undefined : id);
    SPELLINGS.set(provider, (spellings = idsBySpelling));
  }
  return spellings.get(normalizeId(modelId));
}

/** Keeps letters and digits only. Digits count: another version is another model. */
function normalizeId(id: string): string {
  const modelName = id.slice(id.lastIndexOf("/") + 1).toLowerCase();
  // A point between digits is part of a number: 3.1 is not 31.
  return modelName
    .replace(/-preview$/, "")
    .replace(/(?<=\d)[.-](?=\d)/g, ".")
    .replace(/[^a-z0-9.:]/g, "");
}
