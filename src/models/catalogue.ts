import { setMaxListeners } from "node:events";
import { abortable, deadline, delay } from "../base/abort.js";
import { monotonicMs } from "../base/clock.js";
import { hasCode, ProviderError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { Model, ModelProvider } from "../ports/model-provider.js";
import { sanitizeModel, isModel } from "./sanitize-model.js";

/** An available model and its provider. */
export interface ModelEntry {
  provider: string;
  model: Model;
}

/** A model chosen for a run. */
export interface ChosenModel {
  provider: ModelProvider;
  model: Model;
}

/** Names of a provider and a model; `""` for a name that is not specified. */
export interface ModelPair {
  provider: string;
  model: string;
}

/** Stores model lists beyond the life of the process. Neither method rejects. */
export interface CatalogueCache {
  /** Models by provider, as last saved; empty if none were saved. */
  load(): Promise<Record<string, Model[]>>;
  save(models: Record<string, readonly Model[]>): Promise<void>;
}

/** Stores nothing. Default of an embedded agent. */
export const noCache: CatalogueCache = {
  load: () => Promise.resolve({}),
  save: () => Promise.resolve(),
};

export interface CatalogueOptions {
  providers: readonly ModelProvider[];
  /** The pair in the configuration. The catalogue contains it even if its provider does not list it. */
  named: ModelPair;
  cache: CatalogueCache;
  logger: Logger;
  /** Maximum age of a list in ms before it is requested again on access. 0: never. */
  refreshMs: number;
  /** Timeout for one provider's list, in ms. */
  listingMs: number;
}

/** After a failed request, the list is requested again on access, at the earliest after this time in ms. */
const RETRY_MS = 1_000;
/**
 * Maximum time in ms that a reader waits for a refresh. Most providers answer sooner, and the previous list is
 * available at once.
 */
const LOOK_MS = 700;
/** Minimum time in ms between two requests to one provider. */
const AGAIN_MS = 250;

/** One provider's list and the state of its requests. */
class Listing {
  /** From an earlier process until the list is received in this one. */
  models: readonly Model[] = [];
  heard = false;
  /** Whether the models are only the provider's built-in fallback. */
  assumed = false;
  failure: unknown;
  /** Times on the clock of `monotonicMs`. */
  begunAt = -Infinity;
  endedAt = -Infinity;
  asking: Promise<void> | undefined;
  /** The failure that was last logged. */
  said = "";
  constructor(readonly provider: ModelProvider) {}
}

/**
 * Models of all providers: configured, cached and listed. Each list is requested separately, so that no provider delays
 * another.
 */
export class Catalogue {
  readonly #options: CatalogueOptions;
  readonly #closing = new AbortController();
  readonly #listings: ReadonlyMap<string, Listing>;
  #loading: Promise<void> | undefined;
  #saving: Promise<void> = Promise.resolve();

  constructor(options: CatalogueOptions) {
    this.#options = options;
    this.#listings = new Map(options.providers.map((provider) => [provider.name, new Listing(provider)]));
    // Each provider's request adds a listener.
    setMaxListeners(0, this.#closing.signal);
  }

  /** Loads the cached lists. Requests for lists wait for it. */
  load(): Promise<void> {
    return (this.#loading ??= this.#options.cache.load().then((cached) => {
      for (const [name, listing] of this.#listings) if (!listing.heard) listing.models = cached[name] ?? [];
    }));
  }

  known(): ModelEntry[] {
    return this.#options.providers.flatMap((provider) =>
      this.modelsOf(provider).map((model) => ({ provider: provider.name, model })),
    );
  }

  /** Models of a provider, configured models first. */
  modelsOf(provider: ModelProvider): readonly Model[] {
    const { models, heard } = this.#of(provider);
    const listed = new Map(models.map((model) => [model.id, model]));
    const own = provider.configuredModels.map((model) => {
      const more = listed.get(model.id);
      listed.delete(model.id);
      // A list received in this process contains the configuration. A cached list may be older than the configuration.
      return more === undefined ? model : heard ? { ...model, ...more } : { ...more, ...model };
    });
    const { named } = this.#options;
    if (named.provider === provider.name && !listed.has(named.model) && !own.some(({ id }) => id === named.model))
      own.push({ id: named.model, name: named.model, ownedBy: provider.name });
    return [...own, ...listed.values()];
  }

  lookup(pair: ModelPair): ChosenModel | undefined {
    const provider = this.#listings.get(pair.provider)?.provider;
    const model = provider && this.modelsOf(provider).find((candidate) => candidate.id === pair.model);
    return provider && model && { provider, model };
  }

  /** Whether more than the model's name is known. */
  isDescribed({ provider, model }: ChosenModel): boolean {
    const same = ({ id }: Model): boolean => id === model.id;
    return provider.configuredModels.some(same) || this.#of(provider).models.some(same);
  }

  /** When the last list was requested, on the clock of `monotonicMs`. */
  begunAt(provider: ModelProvider): number {
    return this.#of(provider).begunAt;
  }

  failureOf(provider: ModelProvider): unknown {
    return this.#of(provider).failure;
  }

  /**
   * Whether the provider was asked and a retry cannot help: it sent its list, rejected the request, or is unreachable.
   */
  isHopeless(provider: ModelProvider): boolean {
    const { asking, endedAt, failure } = this.#of(provider);
    return asking === undefined && endedAt !== -Infinity && !mayPass(failure);
  }

  /** Whether every provider in this process has sent its list or an error. */
  isHeard(): boolean {
    return [...this.#listings.values()].every(({ endedAt }) => endedAt !== -Infinity);
  }

  /** Waits for the running request, or makes the first one. Rejects only with the signal's reason. */
  async heard(provider: ModelProvider, signal: AbortSignal): Promise<void> {
    await this.load();
    const { asking, endedAt } = this.#of(provider);
    const waiting = endedAt === -Infinity ? this.ask(provider) : asking;
    if (waiting !== undefined) await abortable(waiting, signal);
  }

  /** Waits for a list requested now or later. Rejects only with the signal's reason. */
  async again(provider: ModelProvider, signal: AbortSignal): Promise<void> {
    await this.load();
    const listing = this.#of(provider);
    const called = monotonicMs();
    const early = listing.begunAt + AGAIN_MS - called;
    if (early > 0 && listing.asking === undefined) await delay(early, signal);
    // Another waiting caller may have requested the list, and it may already have arrived.
    const waiting = listing.begunAt >= called ? listing.asking : this.ask(provider);
    if (waiting !== undefined) await abortable(waiting, signal);
  }

  /** Requests the list. A running request is shared. Never rejects. */
  ask(provider: ModelProvider): Promise<void> {
    const listing = this.#of(provider);
    return (listing.asking ??= this.#list(listing).finally(() => (listing.asking = undefined)));
  }

  /** Requests, in the background, lists that are old or known only from the cache. */
  refresh(): void {
    for (const listing of this.#listings.values())
      if (this.#isOld(listing) || (listing.endedAt === -Infinity && listing.models.length > 0))
        void this.ask(listing.provider);
  }

  /** Requests old lists and waits at most `LOOK_MS` for them. Rejects only with the signal's reason. */
  async refreshed(signal: AbortSignal): Promise<void> {
    const old = [...this.#listings.values()].filter((listing) => this.#isOld(listing));
    // Providers whose last request timed out are not awaited again.
    const quick = old.filter(({ failure }) => !isTimeout(failure)).map(({ provider }) => provider);
    for (const { provider } of old) void this.ask(provider);
    const limit = deadline(LOOK_MS, signal);
    try {
      await abortable(Promise.all(quick.map((provider) => this.ask(provider))), limit.signal);
    } catch (error) {
      if (!limit.expired) throw error;
    } finally {
      limit.clear();
    }
  }

  /** Why no model is available yet, for each provider. */
  why(): string {
    return [...this.#listings.values()]
      .flatMap(({ provider: { name }, failure, asking, models }) => {
        if (failure !== undefined) return [told(name, failure)];
        if (asking !== undefined) return [`${name}: no answer yet`];
        return models.length === 0 ? [`${name}: no models`] : [];
      })
      .join("; ");
  }

  /** Aborts running requests and waits for them. */
  async close(): Promise<void> {
    this.#closing.abort(new Error("closed"));
    for (const { asking } of this.#listings.values()) await asking;
    await this.#saving;
  }

  #of(provider: ModelProvider): Listing {
    return this.#listings.get(provider.name) ?? new Listing(provider);
  }

  #isOld({ asking, endedAt, failure }: Listing): boolean {
    if (asking !== undefined || endedAt === -Infinity) return false;
    const age = monotonicMs() - endedAt;
    const { refreshMs } = this.#options;
    return failure === undefined ? refreshMs > 0 && age > refreshMs : age > RETRY_MS;
  }

  async #list(listing: Listing): Promise<void> {
    const { logger, listingMs } = this.#options;
    const { provider } = listing;
    const closing = this.#closing.signal;
    listing.begunAt = monotonicMs();
    const limit = deadline(listingMs, closing);
    try {
      // Work that does not wait for the list runs first.
      await new Promise<void>((resolve) => setImmediate(resolve));
      const told: unknown = await abortable(provider.models(limit.signal), limit.signal);
      // A provider written in JavaScript may return any value, which would damage the whole catalogue.
      if (!Array.isArray(told)) throw new ProviderError(provider.name, "protocol", "what it told is no list of models");
      listing.models = told.filter(isModel).map(sanitizeModel);
      listing.heard = true;
      listing.assumed = false;
      listing.failure = undefined;
      listing.said = "";
      await this.#save();
    } catch (error) {
      if (closing.aborted) return;
      listing.failure = limit.expired
        ? new ProviderError(provider.name, "timeout", `no list of models within ${listingMs / 1000} s`)
        : (error ?? new Error("unexpected failure"));
      await this.#assume(listing);
      const reason = whyFailed(listing.failure);
      // Repeated requests would fill the log with the same line.
      if (reason === listing.said) return;
      listing.said = reason;
      logger.warn(`models of ${provider.name} could not be listed`, { error: reason });
    } finally {
      listing.endedAt = monotonicMs();
      limit.clear();
    }
  }

  /** Uses the provider's fallback models if no others are known and the failure is not a rejected key. */
  async #assume(listing: Listing): Promise<void> {
    const { provider, failure, models } = listing;
    if (models.length > 0 || (hasCode(failure, "provider") && failure.kind === "authentication")) return;
    try {
      const told: unknown = await provider.fallbackModels?.();
      if (!Array.isArray(told) || told.length === 0) return;
      listing.models = told.filter(isModel).map((model) => ({ ...sanitizeModel(model), assumed: true as const }));
      listing.assumed = true;
      this.#options.logger.info(`models of ${provider.name} are those that it was known to have`, {
        models: listing.models.length,
      });
    } catch (error) {
      this.#options.logger.debug(`nothing is known of ${provider.name} by heart`, { error });
    }
  }

  /** Saves run one after another, so that the newest is saved last. */
  #save(): Promise<void> {
    const known = [...this.#listings].filter(
      ([, { heard, assumed, models }]) => heard || (models.length > 0 && !assumed),
    );
    const models = Object.fromEntries(known.map(([name, listing]) => [name, listing.models]));
    return (this.#saving = this.#saving.then(() => this.#options.cache.save(models)));
  }
}

/** Whether a retry may help. False if the provider rejects the request, sent its list, or is unreachable. */
function mayPass(failure: unknown): boolean {
  if (hasCode(failure, "provider")) return failure.retryable && !failure.unreachable;
  return failure instanceof Error && failure.name === "TimeoutError";
}

function isTimeout(failure: unknown): boolean {
  return hasCode(failure, "provider") && failure.kind === "timeout";
}

export function whyFailed(failure: unknown): string {
  return failure instanceof Error ? failure.message : String(failure);
}

/** A provider's own errors start with its name. */
function told(name: string, failure: unknown): string {
  const reason = whyFailed(failure);
  return reason.startsWith(`${name}: `) ? reason : `${name}: ${reason}`;
}
