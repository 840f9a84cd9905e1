import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { Logger } from "gantry";
import { isRecord } from "gantry/plugin";
import type { Read } from "./network.js";
import { setNewerPrices, loadPriceList, type NewerPrices, type PriceList } from "./price-list.js";

/** Age at which fetched prices are refreshed, and delay after a failure, in ms. */
const DAY_MS = 86_400_000;
const RETRY_DELAY_MS = 3_600_000;
/** Maximum age of cached prices, in ms. Beyond it the prices of the package may be newer. */
const MAX_AGE_MS = 90 * DAY_MS;
const FETCH_TIMEOUT_MS = 30_000;
/** Maximum size of the list in bytes; several times its actual size. */
const MAX_LIST_BYTES = 8 * 1024 * 1024;
const MAX_PROVIDERS = 1_000;
const MAX_MODELS = 50_000;
/** Providers that a valid list must contain. */
const REQUIRED_PROVIDERS = ["anthropic", "google", "openai"];
const MAX_PATTERN_CHARACTERS = 200;
const MAX_MATCH_DEPTH = 8;

/** Cache file and URL of newer prices. */
export interface PriceSource {
  /** Absolute path of the cache file; it is created by the first update. */
  readonly file: string;
  /** URL of the list. Default: the price package's own. */
  readonly url?: string;
}

type Providers = Exclude<Awaited<ReturnType<PriceList["waitForUpdate"]>>, null>;
type SetProviders = (providers: Providers) => void;

/**
 * The price package's current list, cached in a file. Errors are logged at debug level and do not change the prices.
 */
export class CachedPrices implements NewerPrices {
  readonly #source: PriceSource;
  readonly #logger: Logger | undefined;
  #fetchedAt = 0;
  #attemptedAt = 0;

  constructor(source: PriceSource, logger: Logger | undefined) {
    this.#source = source;
    this.#logger = logger;
  }

  hasSource({ file, url }: PriceSource): boolean {
    return file === this.#source.file && url === this.#source.url;
  }

  /** Loads the cached prices of any process. Never rejects. */
  async load(list: PriceList): Promise<void> {
    const text = await readFile(this.#source.file, "utf8").catch(() => undefined);
    if (text === undefined) return;
    try {
      const { url, set: setProviders } = getUpdateMechanism(list);
      const storedPrices: unknown = JSON.parse(text);
      if (!isRecord(storedPrices) || typeof storedPrices.fetchedAt !== "number")
        throw new Error("the file has no cached prices");
      const ageMs = Date.now() - storedPrices.fetchedAt;
      // A new list format has a new URL.
      if (storedPrices.url !== (this.#source.url ?? url) || !(ageMs >= 0 && ageMs < MAX_AGE_MS)) return;
      setProviders(checkProviders(storedPrices.providers));
      this.#fetchedAt = storedPrices.fetchedAt;
    } catch (error) {
      this.#logger?.debug("cached prices ignored; using the prices of the package", { error });
    }
  }

  /** Fetches the list if the current one is older than a day. Never rejects. */
  async refresh(read: Read, signal: AbortSignal): Promise<void> {
    const now = Date.now();
    const isNew = (): boolean => now - this.#fetchedAt < DAY_MS;
    if (isNew() || now - this.#attemptedAt < RETRY_DELAY_MS || signal.aborted) return;
    const list = await loadPriceList();
    if (list === undefined) return;
    // Another process may have fetched the list meanwhile.
    await this.load(list);
    if (isNew() || signal.aborted) return;
    this.#attemptedAt = now;
    try {
      const mechanism = getUpdateMechanism(list);
      const url = this.#source.url ?? mechanism.url;
      const fetchSignal = AbortSignal.any([signal, AbortSignal.timeout(FETCH_TIMEOUT_MS)]);
      const response = await read(
        url,
        { headers: { accept: "application/json" } },
        fetchSignal,
        MAX_LIST_BYTES,
        "a list of prices",
      );
      if (!response.ok) throw new Error(`the request for the price list failed with status ${response.status}`);
      const providers = checkProviders(JSON.parse(response.text));
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
    const temporaryPath = `${file}.${randomUUID()}.tmp`;
    try {
      await mkdir(dirname(file), { recursive: true, mode: 0o700 });
      await writeFile(temporaryPath, text, { mode: 0o600, flag: "wx" });
      await rename(temporaryPath, file);
    } catch (error) {
      await rm(temporaryPath, { force: true }).catch(() => undefined);
      throw error;
    }
  }
}

let sharedPrices: CachedPrices | undefined;

/** The cached prices of a source, shared by all providers. Puts these prices into effect. */
export function getCachedPrices(source: PriceSource, logger: Logger | undefined): CachedPrices {
  if (sharedPrices?.hasSource(source) === true) return sharedPrices;
  sharedPrices = new CachedPrices(source, logger);
  setNewerPrices(sharedPrices);
  return sharedPrices;
}

/** The package's own URL and update function. The function rejects invalid prices and keeps the previous prices. */
function getUpdateMechanism(list: PriceList): { url: string; set: SetProviders } {
  let mechanism: { url: string; set: SetProviders } | undefined;
  list.updatePrices(({ remoteDataUrl, setProviderData }) => {
    mechanism = { url: remoteDataUrl, set: setProviderData };
  });
  return mechanism!;
}

/** Validates a fetched list; throws if it is invalid. */
function checkProviders(value: unknown): Providers {
  const fail = (problem: string): never => {
    throw new Error(`invalid price list: ${problem}`);
  };
  if (!Array.isArray(value) || value.length > MAX_PROVIDERS) return fail("no list of providers");
  let models = 0;
  for (const provider of value as unknown[]) {
    if (!isRecord(provider) || typeof provider.id !== "string" || !Array.isArray(provider.models))
      return fail("a provider without models");
    if (!isMatchClause(provider.model_match) || !isMatchClause(provider.provider_match))
      fail(`a match clause of ${provider.id}`);
    models += provider.models.length;
    for (const model of provider.models as unknown[])
      if (
        !isRecord(model) ||
        typeof model.id !== "string" ||
        model.match === undefined ||
        !isMatchClause(model.match) ||
        !hasValidPrices(model.prices)
      )
        fail(`a model of ${provider.id}`);
  }
  const ids = new Set((value as Providers).map(({ id }) => id));
  if (models > MAX_MODELS || REQUIRED_PROVIDERS.some((id) => !ids.has(id))) fail("well-known providers are missing");
  return value as Providers;
}

/** Whether a match clause is valid, and its evaluation takes bounded time; also true without a clause. */
function isMatchClause(match: unknown, depth = 0): boolean {
  if (match === undefined) return true;
  if (!isRecord(match) || depth > MAX_MATCH_DEPTH) return false;
  return Object.entries(match).every(([kind, clauseValue]) => {
    if (Array.isArray(clauseValue))
      return clauseValue.every((clause: unknown) => clause !== undefined && isMatchClause(clause, depth + 1));
    return typeof clauseValue === "string" && (kind !== "regex" || isPlainPattern(clauseValue));
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
function hasValidPrices(prices: unknown): boolean {
  if (Array.isArray(prices))
    return prices.every((entry: unknown) => isRecord(entry) && isRecord(entry.prices) && hasValidPrices(entry.prices));
  return isRecord(prices) && Object.values(prices).every((price) => isAmount(price) || isTieredPrice(price));
}

function isTieredPrice(price: unknown): boolean {
  if (!isRecord(price) || !isAmount(price.base) || !Array.isArray(price.tiers)) return false;
  return price.tiers.every((tier: unknown) => isRecord(tier) && isAmount(tier.start) && isAmount(tier.price));
}

function isAmount(value: unknown): boolean {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}
