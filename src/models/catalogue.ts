import { setMaxListeners } from "node:events";
import { abortable, createDeadline, delay } from "../base/abort.js";
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
  configuredPair: ModelPair;
  cache: CatalogueCache;
  logger: Logger;
  /** Maximum age of a list in ms before it is requested again on access. 0: never. */
  refreshMs: number;
  /** Timeout for one provider's list, in ms. */
  listTimeoutMs: number;
}

/** After a failed request, the list is requested again on access, at the earliest after this time in ms. */
const RETRY_DELAY_MS = 1_000;
/**
 * Maximum time in ms that a reader waits for a refresh. Most providers answer sooner, and the previous list is
 * available at once.
 */
const REFRESH_WAIT_MS = 700;
/** Minimum time in ms between two requests to one provider. */
const MIN_REQUEST_INTERVAL_MS = 250;

/** The list of a provider and the state of its requests. */
class Listing {
  /** Models from an earlier process until this process receives the list. */
  models: readonly Model[] = [];
  isReceived = false;
  /** Whether the models are only the provider's built-in fallback. */
  isFallback = false;
  /** Error of the last request; undefined after a success and before the first request. */
  failure: unknown;
  /** Start and end of the last request, on the clock of `monotonicMs`. `-Infinity`: none yet. */
  requestedAtMs = -Infinity;
  endedAtMs = -Infinity;
  pendingRequest: Promise<void> | undefined;
  /** Message of the failure that was last logged; empty if no failure was logged since the last success. */
  loggedFailure = "";
  constructor(readonly provider: ModelProvider) {}
}

/**
 * Models of all providers: configured, cached and listed. Each list is requested separately, so that no provider delays
 * another.
 */
export class Catalogue {
  readonly #options: CatalogueOptions;
  readonly #closeController = new AbortController();
  readonly #listings: ReadonlyMap<string, Listing>;
  #loadPromise: Promise<void> | undefined;
  #lastSave: Promise<void> = Promise.resolve();

  constructor(options: CatalogueOptions) {
    this.#options = options;
    this.#listings = new Map(options.providers.map((provider) => [provider.name, new Listing(provider)]));
    // Each provider's request adds a listener.
    setMaxListeners(0, this.#closeController.signal);
  }

  /** Loads the cached lists once. Callers that wait for a list wait for this load first. */
  load(): Promise<void> {
    return (this.#loadPromise ??= this.#options.cache.load().then((cachedModels) => {
      for (const [name, listing] of this.#listings) if (!listing.isReceived) listing.models = cachedModels[name] ?? [];
    }));
  }

  /** All models, in the order of the providers. */
  entries(): ModelEntry[] {
    return this.#options.providers.flatMap((provider) =>
      this.modelsOf(provider).map((model) => ({ provider: provider.name, model })),
    );
  }

  /** Models of a provider, configured models first. */
  modelsOf(provider: ModelProvider): readonly Model[] {
    const { models, isReceived } = this.#listingOf(provider);
    const listedById = new Map(models.map((model) => [model.id, model]));
    const configuredModels = provider.configuredModels.map((model) => {
      const listedModel = listedById.get(model.id);
      listedById.delete(model.id);
      // A list received in this process contains the configuration. A cached list may be older than the configuration.
      return listedModel === undefined
        ? model
        : isReceived
          ? { ...model, ...listedModel }
          : { ...listedModel, ...model };
    });
    const { configuredPair } = this.#options;
    if (
      configuredPair.provider === provider.name &&
      !listedById.has(configuredPair.model) &&
      !configuredModels.some(({ id }) => id === configuredPair.model)
    )
      configuredModels.push({ id: configuredPair.model, name: configuredPair.model, ownedBy: provider.name });
    return [...configuredModels, ...listedById.values()];
  }

  /** Finds a model by both names; undefined if the catalogue does not contain the pair. */
  findModel(pair: ModelPair): ChosenModel | undefined {
    const provider = this.#listings.get(pair.provider)?.provider;
    const model = provider && this.modelsOf(provider).find((candidate) => candidate.id === pair.model);
    return provider && model && { provider, model };
  }

  /** Whether more than the model's name is known. */
  isDescribed({ provider, model }: ChosenModel): boolean {
    const hasSameId = ({ id }: Model): boolean => id === model.id;
    return provider.configuredModels.some(hasSameId) || this.#listingOf(provider).models.some(hasSameId);
  }

  /** Start of the last request for the list, on the clock of `monotonicMs`; `-Infinity` before the first request. */
  getLastRequestMs(provider: ModelProvider): number {
    return this.#listingOf(provider).requestedAtMs;
  }

  /** Error of the last request for the list; undefined if there is none. */
  failureOf(provider: ModelProvider): unknown {
    return this.#listingOf(provider).failure;
  }

  /** Whether a retry cannot change the list: it was received or rejected, or the provider is unreachable. */
  isListFinal(provider: ModelProvider): boolean {
    const { pendingRequest, endedAtMs, failure } = this.#listingOf(provider);
    return pendingRequest === undefined && endedAtMs !== -Infinity && !isTemporary(failure);
  }

  /** Whether every provider's list was received or failed in this process. */
  hasAllReplies(): boolean {
    return [...this.#listings.values()].every(({ endedAtMs }) => endedAtMs !== -Infinity);
  }

  /** Waits for the running request for the list, or starts the first one. Rejects only with the signal's reason. */
  async waitForList(provider: ModelProvider, signal: AbortSignal): Promise<void> {
    await this.load();
    const { pendingRequest, endedAtMs } = this.#listingOf(provider);
    const pendingList = endedAtMs === -Infinity ? this.requestList(provider) : pendingRequest;
    if (pendingList !== undefined) await abortable(pendingList, signal);
  }

  /** Waits for a list that is requested after this call starts. Rejects only with the signal's reason. */
  async waitForNewList(provider: ModelProvider, signal: AbortSignal): Promise<void> {
    await this.load();
    const listing = this.#listingOf(provider);
    const calledAtMs = monotonicMs();
    const remainingMs = listing.requestedAtMs + MIN_REQUEST_INTERVAL_MS - calledAtMs;
    if (remainingMs > 0 && listing.pendingRequest === undefined) await delay(remainingMs, signal);
    // Another waiting caller may have requested the list, and the list may already have arrived.
    const pendingList = listing.requestedAtMs >= calledAtMs ? listing.pendingRequest : this.requestList(provider);
    if (pendingList !== undefined) await abortable(pendingList, signal);
  }

  /** Requests the list, or returns the running request. Never rejects. */
  requestList(provider: ModelProvider): Promise<void> {
    const listing = this.#listingOf(provider);
    return (listing.pendingRequest ??= this.#fetchList(listing).finally(() => (listing.pendingRequest = undefined)));
  }

  /** Requests, in the background, lists that are old or known only from the cache. */
  refresh(): void {
    for (const listing of this.#listings.values())
      if (this.#isOld(listing) || (listing.endedAtMs === -Infinity && listing.models.length > 0))
        void this.requestList(listing.provider);
  }

  /** Requests old lists and waits briefly for them. Rejects only with the signal's reason. */
  async refreshAndWait(signal: AbortSignal): Promise<void> {
    const oldListings = [...this.#listings.values()].filter((listing) => this.#isOld(listing));
    // Providers whose last request timed out are not awaited again.
    const quickProviders = oldListings.filter(({ failure }) => !isTimeout(failure)).map(({ provider }) => provider);
    for (const { provider } of oldListings) void this.requestList(provider);
    const limit = createDeadline(REFRESH_WAIT_MS, signal);
    try {
      await abortable(Promise.all(quickProviders.map((provider) => this.requestList(provider))), limit.signal);
    } catch (error) {
      if (!limit.hasExpired) throw error;
    } finally {
      limit.clear();
    }
  }

  /** Why no model is available yet, for each provider. */
  describeFailures(): string {
    return [...this.#listings.values()]
      .flatMap(({ provider: { name }, failure, pendingRequest, models }) => {
        if (failure !== undefined) return [describeFailure(name, failure)];
        if (pendingRequest !== undefined) return [`${name}: no answer yet`];
        return models.length === 0 ? [`${name}: no models`] : [];
      })
      .join("; ");
  }

  /** Aborts running requests and waits for them. */
  async close(): Promise<void> {
    this.#closeController.abort(new Error("closed"));
    for (const { pendingRequest } of this.#listings.values()) await pendingRequest;
    await this.#lastSave;
  }

  #listingOf(provider: ModelProvider): Listing {
    return this.#listings.get(provider.name) ?? new Listing(provider);
  }

  #isOld({ pendingRequest, endedAtMs, failure }: Listing): boolean {
    if (pendingRequest !== undefined || endedAtMs === -Infinity) return false;
    const ageMs = monotonicMs() - endedAtMs;
    const { refreshMs } = this.#options;
    return failure === undefined ? refreshMs > 0 && ageMs > refreshMs : ageMs > RETRY_DELAY_MS;
  }

  async #fetchList(listing: Listing): Promise<void> {
    const { logger, listTimeoutMs } = this.#options;
    const { provider } = listing;
    const closeSignal = this.#closeController.signal;
    listing.requestedAtMs = monotonicMs();
    const limit = createDeadline(listTimeoutMs, closeSignal);
    try {
      // Work that does not wait for the list runs first.
      await new Promise<void>((resolve) => setImmediate(resolve));
      const reply: unknown = await abortable(provider.models(limit.signal), limit.signal);
      // A provider written in JavaScript may return any value, which would damage the whole catalogue.
      if (!Array.isArray(reply))
        throw new ProviderError(provider.name, "protocol", "the provider did not return a list of models");
      listing.models = reply.filter(isModel).map(sanitizeModel);
      listing.isReceived = true;
      listing.isFallback = false;
      listing.failure = undefined;
      listing.loggedFailure = "";
      await this.#save();
    } catch (error) {
      if (closeSignal.aborted) return;
      listing.failure = limit.hasExpired
        ? new ProviderError(provider.name, "timeout", `no list of models within ${listTimeoutMs / 1000} s`)
        : (error ?? new Error("unexpected failure"));
      await this.#useFallback(listing);
      const reason = formatFailure(listing.failure);
      // Repeated requests would fill the log with the same line.
      if (reason === listing.loggedFailure) return;
      listing.loggedFailure = reason;
      logger.warn(`models of ${provider.name} could not be listed`, { error: reason });
    } finally {
      listing.endedAtMs = monotonicMs();
      limit.clear();
    }
  }

  /** Uses the provider's fallback models if no others are known and the failure is not a rejected key. */
  async #useFallback(listing: Listing): Promise<void> {
    const { provider, failure, models } = listing;
    if (models.length > 0 || (hasCode(failure, "provider") && failure.kind === "authentication")) return;
    try {
      const reply: unknown = await provider.fallbackModels?.();
      if (!Array.isArray(reply) || reply.length === 0) return;
      listing.models = reply.filter(isModel).map((model) => ({ ...sanitizeModel(model), isAssumed: true as const }));
      listing.isFallback = true;
      this.#options.logger.info(`models of ${provider.name} could not be listed; using its built-in list`, {
        models: listing.models.length,
      });
    } catch (error) {
      this.#options.logger.debug(`no built-in model list for ${provider.name}`, { error });
    }
  }

  /** Saves the lists after earlier saves have ended, so that the newest lists are saved last. */
  #save(): Promise<void> {
    const savedListings = [...this.#listings].filter(
      ([, { isReceived, isFallback, models }]) => isReceived || (models.length > 0 && !isFallback),
    );
    const models = Object.fromEntries(savedListings.map(([name, listing]) => [name, listing.models]));
    return (this.#lastSave = this.#lastSave.then(() => this.#options.cache.save(models)));
  }
}

/** Whether a retry may help. False if the provider rejects the request, sent its list, or is unreachable. */
function isTemporary(failure: unknown): boolean {
  if (hasCode(failure, "provider")) return failure.retryable && !failure.unreachable;
  return failure instanceof Error && failure.name === "TimeoutError";
}

function isTimeout(failure: unknown): boolean {
  return hasCode(failure, "provider") && failure.kind === "timeout";
}

export function formatFailure(failure: unknown): string {
  return failure instanceof Error ? failure.message : String(failure);
}

/** Adds the provider's name to a failure, unless the message already starts with the name. */
function describeFailure(name: string, failure: unknown): string {
  const reason = formatFailure(failure);
  return reason.startsWith(`${name}: `) ? reason : `${name}: ${reason}`;
}
