import { setMaxListeners } from "node:events";
import { abortable, deadline, delay } from "../base/abort.js";
import { ticks } from "../base/clock.js";
import { hasCode, ProviderError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { Model, ModelProvider } from "../ports/model-provider.js";
import { believed, isModel } from "./sanitize-model.js";

/** A model on offer, and whose it is. */
export interface ModelEntry {
  provider: string;
  model: Model;
}

/** A model chosen for a run. */
export interface ChosenModel {
  provider: ModelProvider;
  model: Model;
}

/** A pair of names; `""` for a name that is left open. */
export interface ModelPair {
  provider: string;
  model: string;
}

/** Where listings outlive the process. Neither method rejects. */
export interface CatalogueCache {
  /** Models by provider, as last saved; empty when there is nothing. */
  load(): Promise<Record<string, Model[]>>;
  save(models: Record<string, readonly Model[]>): Promise<void>;
}

/** Keeps nothing: the default of an embedded agent. */
export const noCache: CatalogueCache = {
  load: () => Promise.resolve({}),
  save: () => Promise.resolve(),
};

export interface CatalogueOptions {
  providers: readonly ModelProvider[];
  /** The pair that the configuration names: it is there, whatever its provider lists. */
  named: ModelPair;
  cache: CatalogueCache;
  logger: Logger;
  /** A list older than this is asked for again when somebody looks, in ms; 0: never. */
  refreshMs: number;
  /** One provider's listing may take so long, in ms. */
  listingMs: number;
}

/** A list that could not be had is asked for again when somebody looks, so long after, in ms. */
const RETRY_MS = 1_000;
/** Who looks waits so long for what is asked again, in ms: most answer before, and what is known is there already. */
const LOOK_MS = 700;
/** Nobody is asked more often, in ms. */
const AGAIN_MS = 250;

/** What one provider lists, and how it was last heard. */
class Listing {
  /** Of an earlier process, until it is heard in this one. */
  models: readonly Model[] = [];
  heard = false;
  /** Whether they are known by heart alone. */
  assumed = false;
  failure: unknown;
  /** By `ticks`. */
  begunAt = -Infinity;
  endedAt = -Infinity;
  asking: Promise<void> | undefined;
  /** The failure that the log has. */
  said = "";
  constructor(readonly provider: ModelProvider) {}
}

/** Every provider's models: configured, cached and listed, each list asked for by itself, so that none waits for another's. */
export class Catalogue {
  readonly #options: CatalogueOptions;
  readonly #closing = new AbortController();
  readonly #listings: ReadonlyMap<string, Listing>;
  #loading: Promise<void> | undefined;
  #saving: Promise<void> = Promise.resolve();

  constructor(options: CatalogueOptions) {
    this.#options = options;
    this.#listings = new Map(options.providers.map((provider) => [provider.name, new Listing(provider)]));
    // One listing of each provider listens.
    setMaxListeners(0, this.#closing.signal);
  }

  /** What was cached; the rest waits for it. */
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

  /** Configured ones first. */
  modelsOf(provider: ModelProvider): readonly Model[] {
    const { models, heard } = this.#of(provider);
    const listed = new Map(models.map((model) => [model.id, model]));
    const own = provider.known.map((model) => {
      const more = listed.get(model.id);
      listed.delete(model.id);
      // A list of this process has the configuration in it; a cached one may be older than the configuration.
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

  /** Whether more is known of it than its name. */
  isDescribed({ provider, model }: ChosenModel): boolean {
    const same = ({ id }: Model): boolean => id === model.id;
    return provider.known.some(same) || this.#of(provider).models.some(same);
  }

  /** When its last list was asked for, by `ticks`. */
  begunAt(provider: ModelProvider): number {
    return this.#of(provider).begunAt;
  }

  failureOf(provider: ModelProvider): unknown {
    return this.#of(provider).failure;
  }

  /** Whether it was asked, and another try would change nothing: it has none, refuses, or nobody is there. */
  isHopeless(provider: ModelProvider): boolean {
    const { asking, endedAt, failure } = this.#of(provider);
    return asking === undefined && endedAt !== -Infinity && !mayPass(failure);
  }

  /** Whether every provider was asked in this process, and said what it has or why it does not. */
  isHeard(): boolean {
    return [...this.#listings.values()].every(({ endedAt }) => endedAt !== -Infinity);
  }

  /** The list that is under way, else the first one. Rejects with the signal's reason alone. */
  async heard(provider: ModelProvider, signal: AbortSignal): Promise<void> {
    await this.load();
    const { asking, endedAt } = this.#of(provider);
    const waiting = endedAt === -Infinity ? this.ask(provider) : asking;
    if (waiting !== undefined) await abortable(waiting, signal);
  }

  /** A list that begins now or later. Rejects with the signal's reason alone. */
  async again(provider: ModelProvider, signal: AbortSignal): Promise<void> {
    await this.load();
    const listing = this.#of(provider);
    const called = ticks();
    const early = listing.begunAt + AGAIN_MS - called;
    if (early > 0 && listing.asking === undefined) await delay(early, signal);
    // Another who waited may have asked, and been answered, already.
    const waiting = listing.begunAt >= called ? listing.asking : this.ask(provider);
    if (waiting !== undefined) await abortable(waiting, signal);
  }

  /** Never rejects; one that is under way is shared. */
  ask(provider: ModelProvider): Promise<void> {
    const listing = this.#of(provider);
    return (listing.asking ??= this.#list(listing).finally(() => (listing.asking = undefined)));
  }

  /** Ask in the background for what is old, or known from the cache alone. */
  refresh(): void {
    for (const listing of this.#listings.values())
      if (this.#isOld(listing) || (listing.endedAt === -Infinity && listing.models.length > 0))
        void this.ask(listing.provider);
  }

  /** Ask for what is old, and wait a little for it. Rejects with the signal's reason alone. */
  async refreshed(signal: AbortSignal): Promise<void> {
    const old = [...this.#listings.values()].filter((listing) => this.#isOld(listing));
    // Who let us wait to the end the last time is not waited for again.
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

  /** Why there is nothing yet, provider by provider. */
  why(): string {
    return [...this.#listings.values()]
      .flatMap(({ provider: { name }, failure, asking, models }) => {
        if (failure !== undefined) return [told(name, failure)];
        if (asking !== undefined) return [`${name}: no answer yet`];
        return models.length === 0 ? [`${name}: no models`] : [];
      })
      .join("; ");
  }

  /** Stop what is under way and wait for it. */
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
    const age = ticks() - endedAt;
    const { refreshMs } = this.#options;
    return failure === undefined ? refreshMs > 0 && age > refreshMs : age > RETRY_MS;
  }

  async #list(listing: Listing): Promise<void> {
    const { logger, listingMs } = this.#options;
    const { provider } = listing;
    const closing = this.#closing.signal;
    listing.begunAt = ticks();
    const limit = deadline(listingMs, closing);
    try {
      // Whoever does not wait for it is answered first.
      await new Promise<void>((resolve) => setImmediate(resolve));
      const told: unknown = await abortable(provider.models(limit.signal), limit.signal);
      // One written in JavaScript may tell anything, and would spoil the list of all.
      if (!Array.isArray(told)) throw new ProviderError(provider.name, "protocol", "what it told is no list of models");
      listing.models = told.filter(isModel).map(believed);
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
      // Asked again and again, it would fill the log with the same line.
      if (reason === listing.said) return;
      listing.said = reason;
      logger.warn(`models of ${provider.name} could not be listed`, { error: reason });
    } finally {
      listing.endedAt = ticks();
      limit.clear();
    }
  }

  /** What it is known to have had, where nothing is known of what it has, and a key that it refuses is not why. */
  async #assume(listing: Listing): Promise<void> {
    const { provider, failure, models } = listing;
    if (models.length > 0 || (hasCode(failure, "provider") && failure.kind === "authentication")) return;
    try {
      const told: unknown = await provider.assumed?.();
      if (!Array.isArray(told) || told.length === 0) return;
      listing.models = told.filter(isModel).map((model) => ({ ...believed(model), assumed: true as const }));
      listing.assumed = true;
      this.#options.logger.info(`models of ${provider.name} are those that it was known to have`, {
        models: listing.models.length,
      });
    } catch (error) {
      this.#options.logger.debug(`nothing is known of ${provider.name} by heart`, { error });
    }
  }

  /** One after the other, so that the last one saved is the newest. */
  #save(): Promise<void> {
    const known = [...this.#listings].filter(
      ([, { heard, assumed, models }]) => heard || (models.length > 0 && !assumed),
    );
    const models = Object.fromEntries(known.map(([name, listing]) => [name, listing.models]));
    return (this.#saving = this.#saving.then(() => this.#options.cache.save(models)));
  }
}

/** Whether another try may help: not where the provider refuses, has nothing, or cannot be there. */
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

/** A provider's own errors begin with its name. */
function told(name: string, failure: unknown): string {
  const reason = whyFailed(failure);
  return reason.startsWith(`${name}: `) ? reason : `${name}: ${reason}`;
}
