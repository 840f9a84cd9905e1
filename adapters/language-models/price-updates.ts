import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { Logger } from "gantry";
import { createDeadline, isRecord } from "gantry/plugin";
import type { Read } from "./network.js";
import type { PriceSource } from "./options.js";
import { setNewerPrices, loadPriceList, type NewerPrices, type PriceList } from "./prices.js";

const DAY_MS = 86_400_000;
/** Age at which fetched prices are refreshed. */
const REFRESH_AGE_MS = DAY_MS;
/** Delay after a failed update. */
const RETRY_DELAY_MS = 3_600_000;
/** Maximum age of cached prices. The package may have newer prices than an older cache. */
const MAX_AGE_MS = 90 * DAY_MS;
const FETCH_TIMEOUT_MS = 30_000;
/** Several times the actual size of the list. */
const MAX_LIST_BYTES = 8 * 1024 * 1024;
const MAX_PROVIDERS = 1_000;
const MAX_MODELS = 50_000;
/** Providers that a valid list must contain. */
const REQUIRED_PROVIDERS = ["anthropic", "google", "openai"];
const MAX_PATTERN_CHARACTERS = 200;
const MAX_MATCH_DEPTH = 8;

type Providers = Exclude<Awaited<ReturnType<PriceList["waitForUpdate"]>>, null>;
type SetProviders = (providers: Providers) => void;

/**
 * The price package's current list, cached in a file. Errors are logged at debug level and do not change the prices.
 */
export class CachedPrices implements NewerPrices {
  readonly #source: PriceSource;
  readonly #logger: Logger | undefined;
  /** Time of the last successful update by any process; 0 before the first load. */
  #fetchedAtMs = 0;
  /** Time of the last attempt by this process; 0 before the first attempt. */
  #attemptedAtMs = 0;

  constructor(source: PriceSource, logger: Logger | undefined) {
    this.#source = source;
    this.#logger = logger;
  }

  hasSource({ file, url }: PriceSource): boolean {
    return file === this.#source.file && url === this.#source.url;
  }

  /** Loads the cached prices, which another process may have stored. Never rejects. */
  async load(list: PriceList): Promise<void> {
    const text = await readFile(this.#source.file, "utf8").catch(() => undefined);
    if (text === undefined) return;
    try {
      const { url, setProviders } = getUpdateMechanism(list);
      const storedPrices: unknown = JSON.parse(text);
      if (!isRecord(storedPrices) || typeof storedPrices.fetchedAt !== "number")
        throw new Error("the file has no cached prices");
      const ageMs = Date.now() - storedPrices.fetchedAt;
      // A new list format has a new URL.
      if (storedPrices.url !== (this.#source.url ?? url) || !(ageMs >= 0 && ageMs < MAX_AGE_MS)) return;
      setProviders(checkProviders(storedPrices.providers));
      this.#fetchedAtMs = storedPrices.fetchedAt;
    } catch (error) {
      this.#logger?.debug("cached prices ignored; using the prices of the package", { error });
    }
  }

  /** Fetches the list if the current one is older than a day. Never rejects. */
  async refresh(read: Read, signal: AbortSignal): Promise<void> {
    const nowMs = Date.now();
    const isNew = (): boolean => nowMs - this.#fetchedAtMs < REFRESH_AGE_MS;
    if (isNew() || nowMs - this.#attemptedAtMs < RETRY_DELAY_MS || signal.aborted) return;
    const list = await loadPriceList();
    if (list === undefined) return;
    // Another process may have fetched the list meanwhile.
    await this.load(list);
    if (isNew() || signal.aborted) return;
    this.#attemptedAtMs = nowMs;
    try {
      const mechanism = getUpdateMechanism(list);
      const url = this.#source.url ?? mechanism.url;
      const deadline = createDeadline(FETCH_TIMEOUT_MS, signal);
      const init = { headers: { accept: "application/json" } };
      const response = await read(url, init, deadline.signal, MAX_LIST_BYTES, "a list of prices").finally(() =>
        deadline.clear(),
      );
      if (!response.ok) throw new Error(`the request for the price list failed with status ${response.status}`);
      const providers = checkProviders(JSON.parse(response.text));
      mechanism.setProviders(providers);
      this.#fetchedAtMs = nowMs;
      await this.#store(JSON.stringify({ fetchedAt: nowMs, url, providers }));
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
function getUpdateMechanism(list: PriceList): { url: string; setProviders: SetProviders } {
  let mechanism: { url: string; setProviders: SetProviders } | undefined;
  list.updatePrices(({ remoteDataUrl, setProviderData }) => {
    mechanism = { url: remoteDataUrl, setProviders: setProviderData };
  });
  return mechanism!;
}

/** Returns a fetched list if it is valid; throws otherwise. */
function checkProviders(value: unknown): Providers {
  const fail = (problem: string): never => {
    throw new Error(`invalid price list: ${problem}`);
  };
  if (!Array.isArray(value) || value.length > MAX_PROVIDERS) return fail("no list of providers");
  let modelCount = 0;
  for (const provider of value as unknown[]) {
    if (!isRecord(provider) || typeof provider.id !== "string" || !Array.isArray(provider.models))
      return fail("a provider without models");
    if (!isMatchClause(provider.model_match) || !isMatchClause(provider.provider_match))
      fail(`a match clause of ${provider.id}`);
    modelCount += provider.models.length;
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
  const providerIds = new Set((value as Providers).map(({ id }) => id));
  if (modelCount > MAX_MODELS) fail("too many models");
  if (REQUIRED_PROVIDERS.some((id) => !providerIds.has(id))) fail("well-known providers are missing");
  return value as Providers;
}

/** Whether a match clause is missing, or is valid and takes bounded time to evaluate. */
function isMatchClause(match: unknown, depth = 0): boolean {
  if (match === undefined) return true;
  if (!isRecord(match) || depth > MAX_MATCH_DEPTH) return false;
  return Object.entries(match).every(([kind, clauseValue]) => {
    if (Array.isArray(clauseValue))
      return clauseValue.every((clause: unknown) => clause !== undefined && isMatchClause(clause, depth + 1));
    return typeof clauseValue === "string" && (kind !== "regex" || isPlainPattern(clauseValue));
  });
}

/** Whether a pattern is short and has no repeated group, no back reference and at most one unbounded repetition. */
function isPlainPattern(pattern: string): boolean {
  if (pattern.length > MAX_PATTERN_CHARACTERS || /\)[*+{]|\\\d/.test(pattern)) return false;
  if ((pattern.match(/[*+]|,\}/g) ?? []).length > 1) return false;
  try {
    return new RegExp(pattern) instanceof RegExp;
  } catch {
    return false;
  }
}

/** Whether the value has valid prices by unit, optionally in tiers, or a list of such prices by date or time of day. */
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
