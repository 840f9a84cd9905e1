import { abortable, deadline, delay } from "../base/abort.js";
import { monotonicMs } from "../base/clock.js";
import {
  Catalogue,
  failureMessage,
  type CatalogueCache,
  type ChosenModel,
  type ModelEntry,
  type ModelPair,
} from "./catalogue.js";
import { hasCode, ModelSelectionError, ModelTimeoutError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { ModelProvider } from "../ports/model-provider.js";

export { noCache, type CatalogueCache, type ChosenModel, type ModelEntry, type ModelPair } from "./catalogue.js";

export interface ModelsOptions {
  providers: readonly ModelProvider[];
  /** Configured preference; `""` for a name that is not configured. */
  preferred: ModelPair;
  cache: CatalogueCache;
  logger: Logger;
  /** Maximum time in ms that a run waits for a model, and `list` for the lists. */
  timeoutMs: number;
  /** Maximum age of a list in ms before it is requested again on access. 0: never. Default 300,000. */
  refreshMs?: number;
  /** Timeout for one provider's list, in ms. Default 30,000. */
  listingMs?: number;
}

/** Maximum time in ms that a run waits for a slow provider while another has a model. */
const SLOW_PROVIDER_WAIT_MS = 5_000;
/** Maximum time in ms that the configured model waits for its details from the provider. */
const DETAILS_WAIT_MS = 2_000;
/** Interval in ms at which a waiting caller receives the reason. */
const WAITING_REPORT_MS = 1_000;

/** Returns the pair last used in the project folder. */
type RecentPair = () => Promise<ModelPair | undefined>;

/** The catalogue of all providers, and the selection of a model. */
export class Models {
  readonly #options: ModelsOptions;
  readonly #catalogue: Catalogue;
  /** The configured preference. With a single provider, its name may be omitted. */
  readonly #preference: ModelPair;

  constructor(options: ModelsOptions) {
    const { providers, preferred, cache, logger, refreshMs = 300_000, listingMs = 30_000 } = options;
    this.#options = options;
    const [only, another] = providers;
    const single = another === undefined && preferred.provider === "" && preferred.model !== "" ? only : undefined;
    this.#preference = single ? { provider: single.name, model: preferred.model } : preferred;
    const named = this.#preference.model === "" ? { provider: "", model: "" } : this.#preference;
    this.#catalogue = new Catalogue({ providers, named, cache, logger, refreshMs, listingMs });
  }

  /** Models known now, without waiting: configured, cached and listed. */
  entries(): ModelEntry[] {
    return this.#catalogue.entries();
  }

  /**
   * Models known without a request, including lists of an earlier process.
   *
   * `complete`: whether every provider has replied in this process, so that `list` would return no more.
   */
  async listKnown(): Promise<{ models: ModelEntry[]; complete: boolean }> {
    await this.#catalogue.load();
    return { models: this.entries(), complete: this.#catalogue.hasAllReplies() };
  }

  /**
   * All models of all providers. Waits for each provider's first list, at most `timeoutMs`, and briefly for lists that
   * are old or failed. Failing providers are omitted. Rejects only with the signal's reason.
   */
  async list(signal?: AbortSignal): Promise<ModelEntry[]> {
    const limit = deadline(this.#options.timeoutMs, ...(signal ? [signal] : []));
    try {
      await Promise.all(
        this.#options.providers.map((provider) => this.#catalogue.ensureListed(provider, limit.signal)),
      );
      await this.#catalogue.refreshAndWait(limit.signal);
    } catch (error) {
      if (!limit.expired) throw error;
    } finally {
      limit.clear();
    }
    signal?.throwIfAborted();
    return this.entries();
  }

  /**
   * Whether every provider has sent its list or failed in this process. Requests missing lists and waits at most
   * `waitMs` for them.
   */
  async waitForLists(waitMs: number): Promise<boolean> {
    const limit = deadline(waitMs);
    try {
      if (!this.#catalogue.hasAllReplies())
        await Promise.all(
          this.#options.providers.map((provider) => this.#catalogue.ensureListed(provider, limit.signal)),
        );
    } catch (error) {
      if (!limit.expired) throw error;
    } finally {
      limit.clear();
    }
    return this.#catalogue.hasAllReplies();
  }

  /**
   * Selects the model of a run:
   * - Both names: exactly this pair, or `ModelSelectionError`.
   * - One name: the best match. A configured provider is never replaced by another.
   * - Neither: the session's `stored` pair, then the preferred pair.
   *
   * An unknown pair falls back to the preferred model with a warning. Missing models are requested again. `recent`
   * returns the pair last used in the project folder; `onWaiting` receives the reason while no model is available.
   *
   * Rejects with `ModelSelectionError` as soon as no provider can deliver a model, and with `ModelTimeoutError` after
   * `timeoutMs`.
   */
  async resolve(
    requestedPair: ModelPair,
    stored: ModelPair,
    recent: () => Promise<ModelPair | undefined>,
    signal: AbortSignal,
    onWaiting?: (why: string) => void,
  ): Promise<ChosenModel> {
    await this.#catalogue.load();
    this.#catalogue.refresh();
    // Usual case: the session's own pair is known. It needs no wait, and therefore no deadline or timer.
    const pair = requestedPair.provider === "" && requestedPair.model === "" ? stored : requestedPair;
    const knownModel = pair.provider !== "" && pair.model !== "" ? this.#catalogue.lookup(pair) : undefined;
    if (knownModel) return knownModel;
    const limit = deadline(this.#options.timeoutMs, signal);
    const telling = onWaiting && setInterval(() => onWaiting(this.#catalogue.describeFailures()), WAITING_REPORT_MS);
    try {
      return await this.#choose(requestedPair, stored, recent, limit.signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!limit.expired) throw error;
      const why = this.#catalogue.describeFailures();
      this.#options.logger.warn("no model available within the time limit", { why });
      throw new ModelTimeoutError(why);
    } finally {
      limit.clear();
      clearInterval(telling);
    }
  }

  /**
   * Loads the code for the first request to the provider that runs will probably use, without a request. Never rejects.
   * Stops waiting when the signal aborts.
   */
  async prepare(signal: AbortSignal): Promise<void> {
    const provider = this.#provider(this.#preference.provider) ?? this.#options.providers[0];
    if (provider?.prepare === undefined || signal.aborted) return;
    try {
      await abortable(provider.prepare(), signal);
    } catch (error) {
      this.#options.logger.debug("provider could not be prepared", { provider: provider.name, error });
    }
  }

  /** Aborts running requests and waits for them. */
  async close(): Promise<void> {
    await this.#catalogue.close();
  }

  async #choose(
    requestedPair: ModelPair,
    stored: ModelPair,
    recent: RecentPair,
    signal: AbortSignal,
  ): Promise<ChosenModel> {
    const provider = this.#provider(requestedPair.provider);
    if (requestedPair.provider !== "" && requestedPair.model !== "") {
      if (!provider) throw new ModelSelectionError(`no provider ${requestedPair.provider} is configured`);
      const exact = await this.#find(requestedPair, signal);
      if (exact) return exact;
      throw new ModelSelectionError(
        `${provider.name} has no model ${requestedPair.model}${this.#listFailure(provider)}`,
      );
    }
    if (provider) return await this.#chooseFromProvider(provider, recent, signal);
    const open = requestedPair.model === "" && requestedPair.provider === "" ? stored : requestedPair;
    if (open.model !== "" || open.provider !== "") {
      const match = await this.#withTimeLimit(signal, (patience) =>
        open.provider !== "" ? this.#find(open, patience) : this.#withId(open.model, recent, patience),
      );
      if (match) return match;
      this.#options.logger.warn("requested model unknown; using the preferred model", { ...open });
    }
    return await this.#preferred(recent, signal);
  }

  #provider(name: string): ModelProvider | undefined {
    return this.#options.providers.find((provider) => provider.name === name);
  }

  #listFailure(provider: ModelProvider): string {
    const failure = this.#catalogue.failureOf(provider);
    return failure === undefined ? "" : ` (its list could not be fetched: ${failureMessage(failure)})`;
  }

  /** Finds an exact pair. If it is unknown, its provider is asked. */
  async #find(pair: ModelPair, signal: AbortSignal): Promise<ChosenModel | undefined> {
    const knownModel = this.#catalogue.lookup(pair);
    const provider = this.#provider(pair.provider);
    if (knownModel || !provider) return knownModel;
    const began = monotonicMs();
    await this.#catalogue.ensureListed(provider, signal);
    const heard = this.#catalogue.lookup(pair);
    // A list requested earlier may be older than the model. Request it again unless the request was made after this
    // call.
    if (heard || this.#catalogue.requestedAt(provider) >= began) return heard;
    await this.#catalogue.requestAgain(provider, signal);
    return this.#catalogue.lookup(pair);
  }

  /** Finds a model by its id alone: of the preferred provider, otherwise of the first provider that has it. */
  async #withId(id: string, recent: RecentPair, signal: AbortSignal): Promise<ChosenModel | undefined> {
    const having = (): ChosenModel[] =>
      this.#options.providers.flatMap(
        (provider) => this.#catalogue.lookup({ provider: provider.name, model: id }) ?? [],
      );
    let candidates = having();
    if (candidates.length === 0) {
      const requests = Promise.all(
        this.#options.providers.map((provider) => this.#catalogue.requestAgain(provider, signal)),
      );
      await requests.catch(() => undefined);
      candidates = having();
    }
    if (candidates.length < 2) return candidates[0];
    const best = await this.#preferredPair(recent);
    return candidates.find((candidate) => candidate.provider.name === best.provider) ?? candidates[0];
  }

  /** The provider's preferred model, otherwise its first. Never another provider's model. */
  async #chooseFromProvider(provider: ModelProvider, recent: RecentPair, signal: AbortSignal): Promise<ChosenModel> {
    const best = await this.#preferredPair(recent);
    const preferredModel = best.provider === provider.name ? this.#catalogue.lookup(best) : undefined;
    if (preferredModel) return preferredModel;
    for (let pause = 500; ; pause = Math.min(pause * 2, 5_000)) {
      const first = await this.#first(provider, signal);
      if (first) return first;
      const assumed = this.#catalogue.isHopeless(provider) ? this.#firstFallback([provider]) : undefined;
      if (assumed) return assumed;
      if (this.#catalogue.isHopeless(provider))
        throw new ModelSelectionError(`${provider.name} has no model${this.#listFailure(provider)}`);
      await delay(pause, signal);
      await this.#catalogue.requestAgain(provider, signal);
    }
  }

  async #first(provider: ModelProvider, signal: AbortSignal): Promise<ChosenModel | undefined> {
    if (this.#catalogue.modelsOf(provider).length === 0) await this.#catalogue.ensureListed(provider, signal);
    // Fallback models are used only by name, or if there are no others.
    const model = this.#catalogue.modelsOf(provider).find(({ isAssumed }) => isAssumed !== true);
    return model && { provider, model };
  }

  /** The first fallback model of these providers. Unreachable providers are skipped. */
  #firstFallback(providers: readonly ModelProvider[]): ChosenModel | undefined {
    for (const provider of providers) {
      const [model] = this.#catalogue.modelsOf(provider);
      const failure = this.#catalogue.failureOf(provider);
      if (model && !(hasCode(failure, "provider") && failure.unreachable)) return { provider, model };
    }
    return undefined;
  }

  /** The configured pair if both names are configured, otherwise the pair last used in the project folder. */
  async #preferredPair(recent: RecentPair): Promise<ModelPair> {
    const preference = this.#preference;
    if (preference.provider !== "" && preference.model !== "") return preference;
    const last = await recent();
    return last && this.#catalogue.lookup(last) ? last : preference;
  }

  async #preferred(recent: RecentPair, signal: AbortSignal): Promise<ChosenModel> {
    const { providers, logger } = this.#options;
    const preference = this.#preference;
    if (preference.provider !== "" || preference.model !== "") {
      const configuredModel = await this.#configured(signal);
      if (configuredModel) return configuredModel;
      logger.warn("configured model unknown; using another model", { ...preference });
    }
    const last = await recent();
    const again = last && this.#catalogue.lookup(last);
    if (again) return again;
    const patience = deadline(SLOW_PROVIDER_WAIT_MS, signal);
    try {
      // All providers are asked concurrently, but the first in configured order that has a model is used.
      for (const provider of providers)
        if (this.#catalogue.modelsOf(provider).length === 0)
          void this.#catalogue.ensureListed(provider, patience.signal).catch(() => undefined);
      for (let pause = 500; ; pause = Math.min(pause * 2, 5_000)) {
        for (const provider of providers) {
          const firstModel = await this.#first(provider, patience.signal).catch(() => undefined);
          signal.throwIfAborted();
          if (firstModel) return firstModel;
        }
        // No provider has a model. Temporary failures are retried until the time limit; permanent ones are reported
        // now.
        if (providers.every((provider) => this.#catalogue.isHopeless(provider))) {
          const assumed = this.#firstFallback(providers);
          if (assumed) return assumed;
          const why = this.#catalogue.describeFailures();
          throw new ModelSelectionError(why === "" ? "no provider has a model" : `no model available (${why})`);
        }
        await delay(pause, signal);
        for (const provider of providers) void this.#catalogue.requestList(provider);
      }
    } finally {
      patience.clear();
    }
  }

  /**
   * The configured model. A complete pair is used whether or not it is listed; it waits briefly for its provider's
   * details.
   */
  async #configured(signal: AbortSignal): Promise<ChosenModel | undefined> {
    const { provider: name, model } = this.#preference;
    const nobody = (): Promise<undefined> => Promise.resolve(undefined);
    if (name === "") return await this.#withTimeLimit(signal, (patience) => this.#withId(model, nobody, patience));
    const provider = this.#provider(name);
    if (!provider) return undefined;
    if (model === "") return await this.#withTimeLimit(signal, (patience) => this.#first(provider, patience));
    const configuredModel = this.#catalogue.lookup(this.#preference);
    if (!configuredModel || this.#catalogue.isDescribed(configuredModel)) return configuredModel;
    await this.#withTimeLimit(signal, (patience) => this.#catalogue.ensureListed(provider, patience), DETAILS_WAIT_MS);
    return this.#catalogue.lookup(this.#preference);
  }

  /** The result of `work`, or undefined if it takes longer than `ms`. */
  async #withTimeLimit<T>(
    signal: AbortSignal,
    work: (patience: AbortSignal) => Promise<T>,
    ms = SLOW_PROVIDER_WAIT_MS,
  ) {
    const patience = deadline(ms, signal);
    try {
      return await abortable(work(patience.signal), patience.signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!patience.expired) throw error;
      return undefined;
    } finally {
      patience.clear();
    }
  }
}
