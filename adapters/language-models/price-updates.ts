import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { Logger } from "gantry";
import { isRecord } from "gantry/plugin";
import type { Read } from "./network.js";
import { preferPrices, priceList, type NewerPrices, type PriceList } from "./price-list.js";

/** Age at which fetched prices are refreshed, and delay after a failure, in ms. */
const DAY_MS = 86_400_000;
const RETRY_MS = 3_600_000;
/** Maximum age of cached prices, in ms. Older ones may be older than those of the package. */
const MAX_AGE_MS = 90 * DAY_MS;
const FETCH_TIMEOUT_MS = 30_000;
/** Maximum size of the list in bytes; several times its actual size. */
const MAX_LIST_BYTES = 8 * 1024 * 1024;
const MAX_PROVIDERS = 1_000;
const MAX_MODELS = 50_000;
/** Providers that a valid list must contain. */
const WELL_KNOWN = ["anthropic", "google", "openai"];
const MAX_PATTERN_CHARACTERS = 200;
const MAX_MATCH_DEPTH = 8;

/** Cache file and address of newer prices. */
export interface PriceSource {
  /** Absolute path of the cache file; it is created by the first update. */
  readonly file: string;
  /** Address of the list. Default: the price package's own. */
  readonly url?: string;
}

type Providers = Exclude<Awaited<ReturnType<PriceList["waitForUpdate"]>>, null>;
type Setting = (providers: Providers) => void;

/**
 * The price package's current list, cached in a file. Errors are logged at debug level and leave the known prices
 * unchanged.
 */
export class CachedPrices implements NewerPrices {
  readonly #source: PriceSource;
  readonly #logger: Logger | undefined;
  #fetchedAt = 0;
  #triedAt = 0;

  constructor(source: PriceSource, logger: Logger | undefined) {
    this.#source = source;
    this.#logger = logger;
  }

  isOf({ file, url }: PriceSource): boolean {
    return file === this.#source.file && url === this.#source.url;
  }

  /** Loads the cached prices of any process. Never rejects. */
  async load(list: PriceList): Promise<void> {
    const text = await readFile(this.#source.file, "utf8").catch(() => undefined);
    if (text === undefined) return;
    try {
      const { url, set } = updateMechanism(list);
      const stored: unknown = JSON.parse(text);
      if (!isRecord(stored) || typeof stored.fetchedAt !== "number") throw new Error("the file has no cached prices");
      const age = Date.now() - stored.fetchedAt;
      // A change of the list format changes its address.
      if (stored.url !== (this.#source.url ?? url) || !(age >= 0 && age < MAX_AGE_MS)) return;
      set(checkProviders(stored.providers));
      this.#fetchedAt = stored.fetchedAt;
    } catch (error) {
      this.#logger?.debug("cached prices ignored; using the prices of the package", { error });
    }
  }

  /** Fetches the list if the current one is older than a day. Never rejects. */
  async refresh(read: Read, signal: AbortSignal): Promise<void> {
    const now = Date.now();
    const isNew = (): boolean => now - this.#fetchedAt < DAY_MS;
    if (isNew() || now - this.#triedAt < RETRY_MS || signal.aborted) return;
    const list = await priceList();
    if (list === undefined) return;
    // Another process may have fetched the list meanwhile.
    await this.load(list);
    if (isNew() || signal.aborted) return;
    this.#triedAt = now;
    try {
      const mechanism = updateMechanism(list);
      const url = this.#source.url ?? mechanism.url;
      const either = AbortSignal.any([signal, AbortSignal.timeout(FETCH_TIMEOUT_MS)]);
      const answer = await read(
        url,
        { headers: { accept: "application/json" } },
        either,
        MAX_LIST_BYTES,
        "a list of prices",
      );
      if (!answer.ok) throw new Error(`the list of prices answers ${answer.status}`);
      const providers = checkProviders(JSON.parse(answer.text));
      mechanism.set(providers);
      this.#fetchedAt = now;
      await this.#store(JSON.stringify({ fetchedAt: now, url, providers }));
      this.#logger?.debug("prices updated", { providers: providers.length });
    } catch (error) {
      if (!signal.aborted) this.#logger?.debug("price update failed; using the known prices", { error });
    }
  }

  async #store(text: string): Promise<void> {
    const { file } = this.#source;
    const temporary = `${file}.${randomUUID()}.tmp`;
    try {
      await mkdir(dirname(file), { recursive: true, mode: 0o700 });
      await writeFile(temporary, text, { mode: 0o600, flag: "wx" });
      await rename(temporary, file);
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => undefined);
      throw error;
    }
  }
}

let sharedPrices: CachedPrices | undefined;

/** The cached prices of a source. All providers share them, and they are used from now on. */
export function getCachedPrices(source: PriceSource, logger: Logger | undefined): CachedPrices {
  if (sharedPrices?.isOf(source) === true) return sharedPrices;
  sharedPrices = new CachedPrices(source, logger);
  preferPrices(sharedPrices);
  return sharedPrices;
}

/** The package's own update function. It rejects invalid prices and keeps the previous ones. */
function updateMechanism(list: PriceList): { url: string; set: Setting } {
  let mechanism: { url: string; set: Setting } | undefined;
  list.updatePrices(({ remoteDataUrl, setProviderData }) => {
    mechanism = { url: remoteDataUrl, set: setProviderData };
  });
  return mechanism!;
}

/** Validates a fetched list; throws if it is invalid. */
function checkProviders(value: unknown): Providers {
  const fail = (what: string): never => {
    throw new Error(`no list of prices: ${what}`);
  };
  if (!Array.isArray(value) || value.length > MAX_PROVIDERS) return fail("no list of providers");
  let models = 0;
  for (const provider of value as unknown[]) {
    if (!isRecord(provider) || typeof provider.id !== "string" || !Array.isArray(provider.models))
      return fail("a provider without models");
    if (!isMatch(provider.model_match) || !isMatch(provider.provider_match)) fail(`how ${provider.id} is found`);
    models += provider.models.length;
    for (const model of provider.models as unknown[])
      if (
        !isRecord(model) ||
        typeof model.id !== "string" ||
        model.match === undefined ||
        !isMatch(model.match) ||
        !arePrices(model.prices)
      )
        fail(`a model of ${provider.id}`);
  }
  const ids = new Set((value as Providers).map(({ id }) => id));
  if (models > MAX_MODELS || WELL_KNOWN.some((id) => !ids.has(id))) fail("well-known providers are missing");
  return value as Providers;
}

/** Whether a match clause is valid, and its evaluation takes bounded time; also true without a clause. */
function isMatch(match: unknown, depth = 0): boolean {
  if (match === undefined) return true;
  if (!isRecord(match) || depth > MAX_MATCH_DEPTH) return false;
  return Object.entries(match).every(([how, what]) => {
    if (Array.isArray(what)) return what.every((clause: unknown) => clause !== undefined && isMatch(clause, depth + 1));
    return typeof what === "string" && (how !== "regex" || isPlainPattern(what));
  });
}

/** Whether a pattern is short and has at most one unbounded repetition, so that matching is fast. */
function isPlainPattern(pattern: string): boolean {
  if (pattern.length > MAX_PATTERN_CHARACTERS || /\)[*+{]|\\\d/.test(pattern)) return false;
  if ((pattern.match(/[*+]|,\}/g) ?? []).length > 1) return false;
  try {
    return new RegExp(pattern) instanceof RegExp;
  } catch {
    return false;
  }
}

/** Whether the value has prices by unit, optionally in tiers, or several of them by date or time of day. */
function arePrices(prices: unknown): boolean {
  if (Array.isArray(prices))
    return prices.every((entry: unknown) => isRecord(entry) && isRecord(entry.prices) && arePrices(entry.prices));
  return isRecord(prices) && Object.values(prices).every((price) => isAmount(price) || isTiered(price));
}

function isTiered(price: unknown): boolean {
  if (!isRecord(price) || !isAmount(price.base) || !Array.isArray(price.tiers)) return false;
  return price.tiers.every((tier: unknown) => isRecord(tier) && isAmount(tier.start) && isAmount(tier.price));
}

function isAmount(value: unknown): boolean {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}
