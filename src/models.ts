import { setMaxListeners } from "node:events";
import { abortable, deadline, delay } from "./abort.js";
import { ModelSelectionError, ModelTimeoutError, ProviderError } from "./errors.js";
import type { Logger } from "./ports/logger.js";
import type { Model, ModelProvider } from "./ports/model-provider.js";

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

export interface ModelsOptions {
  providers: readonly ModelProvider[];
  /** Configured preference; each name may be left out. */
  preferred: ModelPair;
  cache: CatalogueCache;
  logger: Logger;
  /** How long a run waits for a model, and a list for the first sync, in ms. */
  timeoutMs: number;
}

/** One provider's listing may take so long, in ms. */
const LISTING_MS = 5_000;
/** An unknown pair makes the providers be asked again, at most so often, in ms. */
const RESYNC_MS = 60_000;

/** The catalogue of every provider, its first sync, and the choice of a model. */
export class Models {
  readonly #options: ModelsOptions;
  readonly #closing = new AbortController();
  /** By provider: what was cached, then what it listed. Its configured models are always known. */
  readonly #listed = new Map<string, readonly Model[]>();
  readonly #failures = new Map<string, unknown>();
  #loading: Promise<void> | undefined;
  #syncing: Promise<void> | undefined;
  #syncedAt = -Infinity;

  constructor(options: ModelsOptions) {
    this.#options = options;
    // One listing of each provider listens.
    setMaxListeners(0, this.#closing.signal);
  }

  /** What is known now, without waiting: configured, cached and listed models. */
  known(): ModelEntry[] {
    return this.#options.providers.flatMap((provider) =>
      this.#modelsOf(provider).map((model) => ({ provider: provider.name, model })),
    );
  }

  /** All models of all providers. Waits for the first sync, at most 30 s; providers that fail are left out. Rejects with the signal's reason alone. */
  async list(signal?: AbortSignal): Promise<ModelEntry[]> {
    const limit = deadline(this.#options.timeoutMs, ...(signal ? [signal] : []));
    try {
      await this.#synced(limit.signal);
    } catch (error) {
      if (!limit.expired) throw error;
    } finally {
      limit.clear();
    }
    signal?.throwIfAborted();
    return this.known();
  }

  /**
   * The model of a run. Both names given: that very pair, or `ModelSelectionError`. One name: the best match. Neither:
   * the session's `stored` pair, then the preferred one. What nobody knows falls back to the preferred model, with a warning.
   * `recent` tells the pair last used in the project folder. Rejects with `ModelTimeoutError` after 30 s.
   */
  async resolve(
    wanted: ModelPair,
    stored: ModelPair,
    recent: () => Promise<ModelPair | undefined>,
    signal: AbortSignal,
  ): Promise<ChosenModel> {
    await this.#load();
    if (wanted.provider !== "" && wanted.model !== "") {
      const exact = await this.#find(wanted, signal);
      if (exact) return exact;
      const failure = this.#failures.get(wanted.provider);
      const why = this.#provider(wanted.provider)
        ? `${wanted.provider} has no model ${wanted.model}${failure === undefined ? "" : ` (its list could not be fetched: ${reason(failure)})`}`
        : `no provider ${wanted.provider} is configured`;
      throw new ModelSelectionError(why);
    }
    const limit = deadline(this.#options.timeoutMs, signal);
    try {
      const open = wanted.provider === "" && wanted.model === "" ? stored : wanted;
      if (open.provider !== "" || open.model !== "") {
        const found = await this.#match(open, recent, limit.signal);
        if (found) return found;
        this.#options.logger.warn("unknown model asked for; using the preferred one", { ...open });
      }
      return await this.#preferred(recent, limit.signal);
    } catch (error) {
      signal.throwIfAborted();
      if (limit.expired) throw new ModelTimeoutError();
      throw error;
    } finally {
      limit.clear();
    }
  }

  /** Stop what is under way and wait for it. */
  async close(): Promise<void> {
    this.#closing.abort(new Error("closed"));
    await this.#syncing;
  }

  #provider(name: string): ModelProvider | undefined {
    return this.#options.providers.find((provider) => provider.name === name);
  }

  #modelsOf(provider: ModelProvider): readonly Model[] {
    const listed = this.#listed.get(provider.name) ?? [];
    const own = new Set(provider.known.map((model) => model.id));
    return [...provider.known, ...listed.filter((model) => !own.has(model.id))];
  }

  #lookup(pair: ModelPair): ChosenModel | undefined {
    const provider = this.#provider(pair.provider);
    const model = provider && this.#modelsOf(provider).find((candidate) => candidate.id === pair.model);
    return provider && model && { provider, model };
  }

  /** An exact pair; the providers are asked when it is not known yet. */
  async #find(pair: ModelPair, signal: AbortSignal): Promise<ChosenModel | undefined> {
    const known = this.#lookup(pair);
    if (known || !this.#provider(pair.provider)) return known;
    await this.#fresh(signal);
    return this.#lookup(pair);
  }

  /** One or two names, as far as they are known. */
  async #match(
    pair: ModelPair,
    recent: () => Promise<ModelPair | undefined>,
    signal: AbortSignal,
  ): Promise<ChosenModel | undefined> {
    if (pair.provider !== "" && pair.model !== "") return this.#find(pair, signal);
    if (pair.model !== "") {
      let candidates = this.#having(pair.model);
      if (candidates.length === 0) {
        await this.#fresh(signal);
        candidates = this.#having(pair.model);
      }
      if (candidates.length < 2) return candidates[0];
      const best = await this.#preferredPair(recent);
      return candidates.find((candidate) => candidate.provider.name === best?.provider) ?? candidates[0];
    }
    const provider = this.#provider(pair.provider);
    if (!provider) return undefined;
    const best = await this.#preferredPair(recent);
    if (best?.provider === provider.name && best.model !== "") {
      const found = await this.#find(best, signal);
      if (found) return found;
    }
    return this.#first(provider, signal);
  }

  #having(id: string): ChosenModel[] {
    return this.#options.providers.flatMap((provider) => {
      const model = this.#modelsOf(provider).find((candidate) => candidate.id === id);
      return model ? [{ provider, model }] : [];
    });
  }

  async #first(provider: ModelProvider, signal: AbortSignal): Promise<ChosenModel | undefined> {
    if (this.#modelsOf(provider).length === 0) await this.#synced(signal);
    const model = this.#modelsOf(provider)[0];
    return model && { provider, model };
  }

  /** The configured pair if both names are given, else the one last used in the project folder. */
  async #preferredPair(recent: () => Promise<ModelPair | undefined>): Promise<ModelPair | undefined> {
    const { preferred } = this.#options;
    if (preferred.provider !== "" && preferred.model !== "") return preferred;
    const last = await recent();
    return last && this.#lookup(last) ? last : preferred;
  }

  async #preferred(recent: () => Promise<ModelPair | undefined>, signal: AbortSignal): Promise<ChosenModel> {
    const { preferred, providers, logger } = this.#options;
    if (preferred.provider !== "" || preferred.model !== "") {
      const found = await this.#match(preferred, () => Promise.resolve(undefined), signal);
      if (found) return found;
      logger.warn("the configured model is not known; choosing another", { ...preferred });
    }
    const last = await recent();
    const again = last && this.#lookup(last);
    if (again) return again;
    for (let pause = 500; ; pause = Math.min(pause * 2, 5_000)) {
      for (const provider of providers) {
        const found = await this.#first(provider, signal);
        if (found) return found;
      }
      // Nobody has a model. What may pass is asked again until the time is over; what will not is said now.
      const failures = [...this.#failures];
      if (!failures.some(([, failure]) => mayPass(failure))) {
        const why = failures.map(([name, failure]) => `${name}: ${reason(failure)}`).join("; ");
        throw new ModelSelectionError(why === "" ? "no provider has a model" : `no model available (${why})`);
      }
      await delay(pause, signal);
      await this.#sync(signal);
    }
  }

  /** The first sync, whenever it was. */
  async #synced(signal: AbortSignal): Promise<void> {
    await this.#load();
    if (this.#syncedAt === -Infinity) await this.#sync(signal);
  }

  /** A sync that is the first or not long ago. */
  async #fresh(signal: AbortSignal): Promise<void> {
    await this.#load();
    if (performance.now() - this.#syncedAt > RESYNC_MS) await this.#sync(signal);
  }

  #load(): Promise<void> {
    return (this.#loading ??= this.#options.cache.load().then((cached) => {
      for (const provider of this.#options.providers) {
        const models = cached[provider.name];
        if (models && !this.#listed.has(provider.name)) this.#listed.set(provider.name, models);
      }
    }));
  }

  /** Ask every provider at once; a sync under way is shared. */
  async #sync(signal: AbortSignal): Promise<void> {
    this.#syncing ??= this.#syncAll().finally(() => (this.#syncing = undefined));
    await abortable(this.#syncing, signal);
  }

  async #syncAll(): Promise<void> {
    const { providers, logger, cache } = this.#options;
    const closing = this.#closing.signal;
    let changed = false;
    await Promise.all(
      providers.map(async (provider) => {
        const limit = deadline(LISTING_MS, closing);
        try {
          this.#listed.set(provider.name, await abortable(provider.models(limit.signal), limit.signal));
          this.#failures.delete(provider.name);
          changed = true;
        } catch (error) {
          this.#failures.set(provider.name, error);
          if (!closing.aborted) logger.warn(`models of ${provider.name} could not be listed`, { error: reason(error) });
        } finally {
          limit.clear();
        }
      }),
    );
    this.#syncedAt = performance.now();
    if (changed && !closing.aborted) await cache.save(Object.fromEntries(this.#listed));
  }
}

function mayPass(failure: unknown): boolean {
  if (failure instanceof ProviderError) return failure.passing;
  return failure instanceof Error && failure.name === "TimeoutError";
}

function reason(failure: unknown): string {
  if (failure instanceof Error && failure.name === "TimeoutError") return `no answer within ${LISTING_MS / 1000} s`;
  return failure instanceof Error ? failure.message : String(failure);
}
