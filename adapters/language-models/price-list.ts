/** Prices that are newer than the package's. */
export interface NewerPrices {
  /** Put them in. Never rejects. */
  load(list: PriceList): Promise<void>;
}

export type PriceList = typeof import("@pydantic/genai-prices");
type Priced = NonNullable<ReturnType<PriceList["calcPrice"]>>;
type Listed = NonNullable<ReturnType<PriceList["findProvider"]>>;

/** Names that stand for another model now, whose price they have; the list has that of long ago. */
const ALIASES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  deepseek: { "deepseek-chat": "deepseek-v4-flash", "deepseek-reasoner": "deepseek-v4-flash" },
};

let loading: Promise<PriceList | undefined> | undefined;
let kept: NewerPrices | undefined;

/** The public price list, loaded with the first question: 20 MB that a start does not pay for. */
export function priceList(): Promise<PriceList | undefined> {
  // Prices are a convenience: an installation without them works.
  loading ??= open().catch(() => undefined);
  return loading;
}

/** Prices that go before those of the package, which keeps one list for all who are here. */
export function preferPrices(newer: NewerPrices): void {
  kept = newer;
  loading = undefined;
}

async function open(): Promise<PriceList> {
  const list = await import("@pydantic/genai-prices");
  await kept?.load(list);
  return list;
}

/** What the list says of a model, by the very id or another spelling of it; undefined where it knows none, or no price of it. */
export function pricedBy(
  list: PriceList,
  usage: Parameters<PriceList["calcPrice"]>[0],
  modelId: string,
  { providerId, at }: { providerId: string | undefined; at: Date },
): Priced | undefined {
  const options = { ...(providerId === undefined ? {} : { providerId }), timestamp: at };
  const alias = ALIASES[providerId ?? ""]?.[modelId.toLowerCase()];
  const asked = (id: string | undefined) => (id === undefined ? null : list.calcPrice(usage, id, options));
  const found = asked(alias) ?? asked(modelId) ?? asked(spelled(list, modelId, providerId));
  // One without a price is not one that costs nothing.
  return found === null || Object.keys(found.model_price).length === 0 ? undefined : found;
}

const SPELLINGS = new WeakMap<Listed, ReadonlyMap<string, string | undefined>>();

/** The id that a provider's part of the list has for a model which is written otherwise there: `llama3.3-70b`, `gemini-3-flash`. */
function spelled(list: PriceList, modelId: string, providerId: string | undefined): string | undefined {
  const provider = providerId === undefined ? undefined : list.findProvider({ providerId });
  if (provider === undefined) return undefined;
  let known = SPELLINGS.get(provider);
  if (known === undefined) {
    const found = new Map<string, string | undefined>();
    // Of two that are spelled alike none is taken.
    for (const { id } of provider.models) found.set(bare(id), found.has(bare(id)) ? undefined : id);
    SPELLINGS.set(provider, (known = found));
  }
  return known.get(bare(modelId));
}

/** Letters and digits alone. Digits count: another version is another model. */
function bare(id: string): string {
  const own = id.slice(id.lastIndexOf("/") + 1).toLowerCase();
  // A point between digits is a part of a number: 3.1 is not 31.
  return own
    .replace(/-preview$/, "")
    .replace(/(?<=\d)[.-](?=\d)/g, ".")
    .replace(/[^a-z0-9.:]/g, "");
}
