import { setMaxListeners } from "node:events";
import { withTimeLimit } from "../base/abort.js";
import { hasCode } from "../ports/errors.js";
import type { Model, ModelProvider } from "../ports/model-provider.js";
import { ProviderListing, type ListingOptions } from "./provider-listing.js";

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

export interface CatalogueOptions extends Pick<ListingOptions, "logger" | "refreshMs" | "listTimeoutMs"> {
  providers: readonly ModelProvider[];
  /** The pair in the configuration. The catalogue contains it even if its provider does not list it. */
  configuredPair: ModelPair;
  cache: CatalogueCache;
}

/**
 * Maximum time in ms that a reader waits for a refresh. Most providers answer sooner, and the previous list is
 * available at once.
 */
const REFRESH_WAIT_MS = 700;

/** Delay in ms of a request for a cached list, so that the run that uses the cached list sends its own request first. */
const CACHED_LIST_DELAY_MS = 500;

/**
 * Models of all providers: configured, cached and listed. Each list is requested separately, so that no provider delays
 * another.
 */
export class Catalogue {
  readonly #options: CatalogueOptions;
  readonly #closeController = new AbortController();
  readonly #listings: readonly ProviderListing[];
  #loadPromise: Promise<void> | undefined;
  #refreshTimer: NodeJS.Timeout | undefined;
  #lastSave: Promise<void> = Promise.resolve();

  constructor(options: CatalogueOptions) {
    this.#options = options;
    this.#listings = options.providers.map((provider) => this.#createListing(provider));
    // Each provider's request adds a listener.
    setMaxListeners(0, this.#closeController.signal);
  }

  /** Loads the cached lists once. Must end before a list is awaited. */
  load(): Promise<void> {
    return (this.#loadPromise ??= this.#options.cache.load().then((cachedModels) => {
      for (const listing of this.#listings)
        if (listing.source !== "provider") listing.models = cachedModels[listing.provider.name] ?? [];
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
    const { models, source } = this.listingOf(provider);
    const listedById = new Map(models.map((model) => [model.id, model]));
    const configuredModels = provider.configuredModels.map((model) => {
      const listedModel = listedById.get(model.id);
      listedById.delete(model.id);
      // A list received in this process contains the configuration. A cached list may be older than the configuration.
      return listedModel === undefined
        ? model
        : source === "provider"
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
    const provider = this.#options.providers.find(({ name }) => name === pair.provider);
    const model = provider && this.modelsOf(provider).find((candidate) => candidate.id === pair.model);
    return provider && model && { provider, model };
  }

  /** Whether more than the model's name is known. */
  isDescribed({ provider, model }: ChosenModel): boolean {
    const hasSameId = ({ id }: Model): boolean => id === model.id;
    return provider.configuredModels.some(hasSameId) || this.listingOf(provider).models.some(hasSameId);
  }

  /** The list of a provider of this catalogue. */
  listingOf(provider: ModelProvider): ProviderListing {
    return this.#listings.find((listing) => listing.provider === provider) ?? this.#createListing(provider);
  }

  /** Whether every provider's list was received or failed in this process. */
  hasAllReplies(): boolean {
    return this.#listings.every(({ hasReply }) => hasReply);
  }

  /** Waits for each provider's running request, or starts the first one. Rejects only with the signal's reason. */
  async waitForLists(signal: AbortSignal): Promise<void> {
    await this.load();
    await Promise.all(this.#listings.map((listing) => listing.wait(signal)));
  }

  /** Requests, in the background, lists that are old, and later those that are known only from the cache. */
  refresh(): void {
    for (const listing of this.#listings) if (listing.isOld) void listing.request();
    if (this.hasAllReplies()) return;
    this.#refreshTimer ??= setTimeout(() => {
      for (const listing of this.#listings) if (!listing.hasReply && listing.models.length > 0) void listing.request();
    }, CACHED_LIST_DELAY_MS).unref();
  }

  /** Requests old lists and waits briefly for them. Rejects only with the signal's reason. */
  async refreshAndWait(signal: AbortSignal): Promise<void> {
    const oldListings = this.#listings.filter(({ isOld }) => isOld);
    // Providers whose last request timed out are not awaited again.
    const quickListings = oldListings.filter(
      ({ failure }) => !(hasCode(failure, "provider") && failure.kind === "timeout"),
    );
    for (const listing of oldListings) void listing.request();
    await withTimeLimit(REFRESH_WAIT_MS, signal, () => Promise.all(quickListings.map((listing) => listing.request())));
  }

  /** Why no model is available yet, for each provider. */
  describeFailures(): string {
    const problems = this.#listings.map((listing) => listing.describeProblem());
    return problems.filter((problem) => problem !== "").join("; ");
  }

  /** Aborts running requests and waits for them. */
  async close(): Promise<void> {
    clearTimeout(this.#refreshTimer);
    this.#closeController.abort(new Error("closed"));
    for (const listing of this.#listings) await listing.waitForEnd();
    await this.#lastSave;
  }

  #createListing(provider: ModelProvider): ProviderListing {
    const closeSignal = this.#closeController.signal;
    return new ProviderListing(provider, { ...this.#options, closeSignal, onReceived: () => this.#save() });
  }

  /** Saves the lists after earlier saves have ended, so that the newest lists are saved last. */
  #save(): Promise<void> {
    const savedListings = this.#listings.filter(({ isFromProvider }) => isFromProvider);
    const models = Object.fromEntries(savedListings.map(({ provider, models }) => [provider.name, models]));
    return (this.#lastSave = this.#lastSave.then(() => this.#options.cache.save(models)));
  }
}
