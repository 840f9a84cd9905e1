import { randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { Logger } from "gantry";
import { isRecord } from "gantry/plugin";
import type { Read } from "./network.js";
import { preferPrices, priceList, type NewerPrices, type PriceList } from "./price-list.js";

/** How long fetched prices are new, and how long after a failure they are asked for again, in ms. */
const DAY_MS = 86_400_000;
const RETRY_MS = 3_600_000;
/** Prices that nobody fetched for so long may be older than those of the package, in ms. */
const OLD_MS = 90 * DAY_MS;
const LONGEST_MS = 30_000;
/** Bytes of the list: several times what it has. */
const MOST = 8 * 1024 * 1024;
const MOST_PROVIDERS = 1_000;
const MOST_MODELS = 50_000;
/** What a list must have for being one. */
const WELL_KNOWN = ["anthropic", "google", "openai"];
const LONGEST_PATTERN = 200;
const DEEPEST_MATCH = 8;

/** Where newer prices are kept, and where they come from. */
export interface PriceSource {
  /** Absolute path of a file, made with the first update. */
  readonly file: string;
  /** Default: the price package's own. */
  readonly url?: string;
}

type Providers = Exclude<Awaited<ReturnType<PriceList["waitForUpdate"]>>, null>;
type Setting = (providers: Providers) => void;

/** The price package's own list of today, kept in a file. Whatever fails is told at debug, and leaves what was known. */
export class KeptPrices implements NewerPrices {
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

  /** Put in what was fetched before, by whichever process. Never rejects. */
  async load(list: PriceList): Promise<void> {
    const text = await readFile(this.#source.file, "utf8").catch(() => undefined);
    if (text === undefined) return;
    try {
      const { url, set } = mechanismOf(list);
      const stored: unknown = JSON.parse(text);
      if (!isRecord(stored) || typeof stored.fetchedAt !== "number") throw new Error("no kept prices");
      const age = Date.now() - stored.fetchedAt;
      // Another form of the list has another address.
      if (stored.url !== (this.#source.url ?? url) || !(age >= 0 && age < OLD_MS)) return;
      set(checked(stored.providers));
      this.#fetchedAt = stored.fetchedAt;
    } catch (error) {
      this.#logger?.debug("kept prices are not used", { error });
    }
  }

  /** Fetch the list, where the one at hand is a day old. Never rejects. */
  async refresh(read: Read, signal: AbortSignal): Promise<void> {
    const now = Date.now();
    const isNew = (): boolean => now - this.#fetchedAt < DAY_MS;
    if (isNew() || now - this.#triedAt < RETRY_MS || signal.aborted) return;
    const list = await priceList();
    if (list === undefined) return;
    // Another process may have been faster.
    await this.load(list);
    if (isNew() || signal.aborted) return;
    this.#triedAt = now;
    try {
      const mechanism = mechanismOf(list);
      const url = this.#source.url ?? mechanism.url;
      const either = AbortSignal.any([signal, AbortSignal.timeout(LONGEST_MS)]);
      const answer = await read(url, { headers: { accept: "application/json" } }, either, MOST, "a list of prices");
      if (!answer.ok) throw new Error(`the list of prices answers ${answer.status}`);
      const providers = checked(JSON.parse(answer.text));
      mechanism.set(providers);
      this.#fetchedAt = now;
      await this.#keep(JSON.stringify({ fetchedAt: now, url, providers }));
      this.#logger?.debug("prices are those of today", { providers: providers.length });
    } catch (error) {
      if (!signal.aborted) this.#logger?.debug("prices could not be brought up to date", { error });
    }
  }

  async #keep(text: string): Promise<void> {
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

let kept: KeptPrices | undefined;

/** The prices of a source, which all providers share, and which count from now on. */
export function keptPrices(source: PriceSource, logger: Logger | undefined): KeptPrices {
  if (kept?.isOf(source) === true) return kept;
  kept = new KeptPrices(source, logger);
  preferPrices(kept);
  return kept;
}

/** The package's own way to be given newer prices, which refuses what it cannot use and goes on with what it had. */
function mechanismOf(list: PriceList): { url: string; set: Setting } {
  let found: { url: string; set: Setting } | undefined;
  list.updatePrices(({ remoteDataUrl, setProviderData }) => {
    found = { url: remoteDataUrl, set: setProviderData };
  });
  return found!;
}

/** A list as it came from outside; throws where it is none. */
function checked(value: unknown): Providers {
  const fail = (what: string): never => {
    throw new Error(`no list of prices: ${what}`);
  };
  if (!Array.isArray(value) || value.length > MOST_PROVIDERS) return fail("no list of providers");
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
  if (models > MOST_MODELS || WELL_KNOWN.some((id) => !ids.has(id))) fail("not the providers that everyone knows");
  return value as Providers;
}

/** How a model is found, without what could take for ever; or nothing. */
function isMatch(match: unknown, depth = 0): boolean {
  if (match === undefined) return true;
  if (!isRecord(match) || depth > DEEPEST_MATCH) return false;
  return Object.entries(match).every(([how, what]) => {
    if (Array.isArray(what)) return what.every((one: unknown) => one !== undefined && isMatch(one, depth + 1));
    return typeof what === "string" && (how !== "regex" || isPlainPattern(what));
  });
}

/** A pattern that is short, and in which one character at most is repeated without end: it takes no time. */
function isPlainPattern(pattern: string): boolean {
  if (pattern.length > LONGEST_PATTERN || /\)[*+{]|\\\d/.test(pattern)) return false;
  if ((pattern.match(/[*+]|,\}/g) ?? []).length > 1) return false;
  try {
    return new RegExp(pattern) instanceof RegExp;
  } catch {
    return false;
  }
}

/** Amounts by their units, some by tiers; or several of them, by date or time of day. */
function arePrices(prices: unknown): boolean {
  if (Array.isArray(prices))
    return prices.every((one: unknown) => isRecord(one) && isRecord(one.prices) && arePrices(one.prices));
  return isRecord(prices) && Object.values(prices).every((price) => isAmount(price) || isTiered(price));
}

function isTiered(price: unknown): boolean {
  if (!isRecord(price) || !isAmount(price.base) || !Array.isArray(price.tiers)) return false;
  return price.tiers.every((tier: unknown) => isRecord(tier) && isAmount(tier.start) && isAmount(tier.price));
}

function isAmount(value: unknown): boolean {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}
