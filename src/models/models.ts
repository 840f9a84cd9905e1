import { abortable, createDeadline, delay } from "../base/abort.js";
import { monotonicMs } from "../base/clock.js";
import {
  Catalogue,
  formatFailure,
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
  preferredPair: ModelPair;
  cache: CatalogueCache;
  logger: Logger;
  /** Maximum time in ms that a run waits for a model, and `list` for the lists. */
  timeoutMs: number;
  /** Maximum age of a list in ms before it is requested again on access. 0: never. Default 300,000. */
  refreshMs?: number;
  /** Timeout for one provider's list, in ms. Default 30,000. */
  listTimeoutMs?: number;
}

/** Pauses between two requests for missing models: first and maximum. */
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 5_000;
/** Maximum time in ms that a run waits for a slow provider while another provider has a model. */
const SLOW_PROVIDER_WAIT_MS = 5_000;
/** Maximum time in ms that the configured model waits for its details from the provider. */
const DETAILS_WAIT_MS = 2_000;
/** Interval in ms at which a waiting caller receives the reason for the wait. */
const WAIT_REPORT_INTERVAL_MS = 1_000;

/** The catalogue of all providers, and the selection of a model. */
export class Models {
  readonly #options: ModelsOptions;
  readonly #catalogue: Catalogue;
  /** The configured preference. Includes the name of a single provider if the configuration omits the name. */
  readonly #preference: ModelPair;

  constructor(options: ModelsOptions) {
    const { providers, preferredPair, cache, logger, refreshMs = 300_000, listTimeoutMs = 30_000 } = options;
    this.#options = options;
    const [firstProvider, secondProvider] = providers;
    const singleProvider =
      secondProvider === undefined && preferredPair.provider === "" && preferredPair.model !== ""
        ? firstProvider
        : undefined;
    this.#preference = singleProvider ? { provider: singleProvider.name, model: preferredPair.model } : preferredPair;
    const configuredPair = this.#preference.model === "" ? { provider: "", model: "" } : this.#preference;
    this.#catalogue = new Catalogue({ providers, configuredPair, cache, logger, refreshMs, listTimeoutMs });
  }

  /** Models that are known without waiting: configured, cached and listed. */
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
    const limit = createDeadline(this.#options.timeoutMs, ...(signal ? [signal] : []));
    try {
      await Promise.all(this.#options.providers.map((provider) => this.#catalogue.waitForList(provider, limit.signal)));
      await this.#catalogue.refreshAndWait(limit.signal);
    } catch (error) {
      if (!limit.hasExpired) throw error;
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
    const limit = createDeadline(waitMs);
    try {
      if (!this.#catalogue.hasAllReplies())
        await Promise.all(
          this.#options.providers.map((provider) => this.#catalogue.waitForList(provider, limit.signal)),
        );
    } catch (error) {
      if (!limit.hasExpired) throw error;
    } finally {
      limit.clear();
    }
    return this.#catalogue.hasAllReplies();
  }

  /**
   * Selects the model of a run:
   * - Both names: exactly this pair, or `ModelSelectionError`.
   * - One name: the best match. A configured provider is never replaced by another.
   * - Neither: the session's `storedPair`, then the preferred pair.
   *
   * An unknown stored pair, or an unknown single name, falls back to the preferred model with a warning. Missing models
   * are requested again. `onWaiting` receives the reason while no model is available.
   *
   * Rejects with `ModelSelectionError` as soon as no provider can deliver a model, and with `ModelTimeoutError` after
   * `timeoutMs`.
   */
  async resolve(
    requestedPair: ModelPair,
    storedPair: ModelPair,
    findRecentPair: () => Promise<ModelPair | undefined>,
    signal: AbortSignal,
    onWaiting?: (reason: string) => void,
  ): Promise<ChosenModel> {
    await this.#catalogue.load();
    this.#catalogue.refresh();
    // Usual case: the session's own pair is known. It needs no wait, and therefore no deadline or timer.
    const pair = requestedPair.provider === "" && requestedPair.model === "" ? storedPair : requestedPair;
    const knownModel = pair.provider !== "" && pair.model !== "" ? this.#catalogue.findModel(pair) : undefined;
    if (knownModel) return knownModel;
    const limit = createDeadline(this.#options.timeoutMs, signal);
    const reportTimer =
      onWaiting && setInterval(() => onWaiting(this.#catalogue.describeFailures()), WAIT_REPORT_INTERVAL_MS);
    try {
      return await this.#choose(requestedPair, storedPair, findRecentPair, limit.signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!limit.hasExpired) throw error;
      const failures = this.#catalogue.describeFailures();
      this.#options.logger.warn("no model available within the time limit", { why: failures });
      throw new ModelTimeoutError(failures);
    } finally {
      limit.clear();
      clearInterval(reportTimer);
    }
  }

  /**
   * Loads the code for the first request to the provider that runs will probably use, without a request. Never rejects.
   * Stops waiting when the signal aborts.
   */
  async prepare(signal: AbortSignal): Promise<void> {
    const provider = this.#findProvider(this.#preference.provider) ?? this.#options.providers[0];
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
    storedPair: ModelPair,
    findRecentPair: () => Promise<ModelPair | undefined>,
    signal: AbortSignal,
  ): Promise<ChosenModel> {
    const provider = this.#findProvider(requestedPair.provider);
    if (requestedPair.provider !== "" && requestedPair.model !== "") {
      if (!provider) throw new ModelSelectionError(`no provider ${requestedPair.provider} is configured`);
      const exactModel = await this.#findPair(requestedPair, signal);
      if (exactModel) return exactModel;
      throw new ModelSelectionError(
        `${provider.name} has no model ${requestedPair.model}${this.#describeListFailure(provider)}`,
      );
    }
    if (provider) return await this.#chooseFromProvider(provider, findRecentPair, signal);
    const pair = requestedPair.model === "" && requestedPair.provider === "" ? storedPair : requestedPair;
    if (pair.model !== "" || pair.provider !== "") {
      const match = await this.#withTimeLimit(signal, (limitedSignal) =>
        pair.provider !== ""
          ? this.#findPair(pair, limitedSignal)
          : this.#findById(pair.model, findRecentPair, limitedSignal),
      );
      if (match) return match;
      this.#options.logger.warn("requested model unknown; using the preferred model", { ...pair });
    }
    return await this.#choosePreferred(findRecentPair, signal);
  }

  #findProvider(name: string): ModelProvider | undefined {
    return this.#options.providers.find((provider) => provider.name === name);
  }

  #describeListFailure(provider: ModelProvider): string {
    const failure = this.#catalogue.failureOf(provider);
    return failure === undefined ? "" : ` (its list could not be fetched: ${formatFailure(failure)})`;
  }

  /** Finds an exact pair. If the catalogue lacks the pair, requests its provider's list. */
  async #findPair(pair: ModelPair, signal: AbortSignal): Promise<ChosenModel | undefined> {
    const knownModel = this.#catalogue.findModel(pair);
    const provider = this.#findProvider(pair.provider);
    if (knownModel || !provider) return knownModel;
    const calledAtMs = monotonicMs();
    await this.#catalogue.waitForList(provider, signal);
    const listedModel = this.#catalogue.findModel(pair);
    // A list that was requested before this call may be older than the model. Request such a list again.
    if (listedModel || this.#catalogue.getLastRequestMs(provider) >= calledAtMs) return listedModel;
    await this.#catalogue.waitForNewList(provider, signal);
    return this.#catalogue.findModel(pair);
  }

  /** Finds a model by its id alone: of the preferred provider, otherwise of the first provider with such a model. */
  async #findById(
    id: string,
    findRecentPair: () => Promise<ModelPair | undefined>,
    signal: AbortSignal,
  ): Promise<ChosenModel | undefined> {
    const findCandidates = (): ChosenModel[] =>
      this.#options.providers.flatMap(
        (provider) => this.#catalogue.findModel({ provider: provider.name, model: id }) ?? [],
      );
    let candidates = findCandidates();
    if (candidates.length === 0) {
      const requests = Promise.all(
        this.#options.providers.map((provider) => this.#catalogue.waitForNewList(provider, signal)),
      );
      await requests.catch(() => undefined);
      candidates = findCandidates();
    }
    if (candidates.length < 2) return candidates[0];
    const preferredPair = await this.#getPreferredPair(findRecentPair);
    return candidates.find((candidate) => candidate.provider.name === preferredPair.provider) ?? candidates[0];
  }

  /** Returns the provider's preferred model, otherwise its first model. Never another provider's model. */
  async #chooseFromProvider(
    provider: ModelProvider,
    findRecentPair: () => Promise<ModelPair | undefined>,
    signal: AbortSignal,
  ): Promise<ChosenModel> {
    const preferredPair = await this.#getPreferredPair(findRecentPair);
    const preferredModel =
      preferredPair.provider === provider.name ? this.#catalogue.findModel(preferredPair) : undefined;
    if (preferredModel) return preferredModel;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
      const firstModel = await this.#firstModelOf(provider, signal);
      if (firstModel) return firstModel;
      const fallback = this.#catalogue.isListFinal(provider) ? this.#firstFallbackOf([provider]) : undefined;
      if (fallback) return fallback;
      if (this.#catalogue.isListFinal(provider))
        throw new ModelSelectionError(`${provider.name} has no model${this.#describeListFailure(provider)}`);
      await delay(pauseMs, signal);
      await this.#catalogue.waitForNewList(provider, signal);
    }
  }

  async #firstModelOf(provider: ModelProvider, signal: AbortSignal): Promise<ChosenModel | undefined> {
    if (this.#catalogue.modelsOf(provider).length === 0) await this.#catalogue.waitForList(provider, signal);
    // Fallback models are used only by name, or if there are no other models.
    const model = this.#catalogue.modelsOf(provider).find(({ isAssumed }) => isAssumed !== true);
    return model && { provider, model };
  }

  /** The first fallback model of these providers. Unreachable providers are skipped. */
  #firstFallbackOf(providers: readonly ModelProvider[]): ChosenModel | undefined {
    for (const provider of providers) {
      const [model] = this.#catalogue.modelsOf(provider);
      const failure = this.#catalogue.failureOf(provider);
      if (model && !(hasCode(failure, "provider") && failure.unreachable)) return { provider, model };
    }
    return undefined;
  }

  /** The configured pair if both names are configured, otherwise the pair last used in the project folder. */
  async #getPreferredPair(findRecentPair: () => Promise<ModelPair | undefined>): Promise<ModelPair> {
    const preference = this.#preference;
    if (preference.provider !== "" && preference.model !== "") return preference;
    const recentPair = await findRecentPair();
    return recentPair && this.#catalogue.findModel(recentPair) ? recentPair : preference;
  }

  async #choosePreferred(
    findRecentPair: () => Promise<ModelPair | undefined>,
    signal: AbortSignal,
  ): Promise<ChosenModel> {
    const { providers, logger } = this.#options;
    const preference = this.#preference;
    if (preference.provider !== "" || preference.model !== "") {
      const configuredModel = await this.#chooseConfigured(signal);
      if (configuredModel) return configuredModel;
      logger.warn("configured model unknown; using another model", { ...preference });
    }
    const recentPair = await findRecentPair();
    const recentModel = recentPair && this.#catalogue.findModel(recentPair);
    if (recentModel) return recentModel;
    const limit = createDeadline(SLOW_PROVIDER_WAIT_MS, signal);
    try {
      // All providers are asked concurrently, but the first in configured order that has a model is used.
      for (const provider of providers)
        if (this.#catalogue.modelsOf(provider).length === 0)
          void this.#catalogue.waitForList(provider, limit.signal).catch(() => undefined);
      for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
        for (const provider of providers) {
          const firstModel = await this.#firstModelOf(provider, limit.signal).catch(() => undefined);
          signal.throwIfAborted();
          if (firstModel) return firstModel;
        }
        // No provider has a model. Retry temporary failures until the time limit, and report permanent failures now.
        if (providers.every((provider) => this.#catalogue.isListFinal(provider))) {
          const fallback = this.#firstFallbackOf(providers);
          if (fallback) return fallback;
          const failures = this.#catalogue.describeFailures();
          throw new ModelSelectionError(
            failures === "" ? "no provider has a model" : `no model available (${failures})`,
          );
        }
        await delay(pauseMs, signal);
        for (const provider of providers) void this.#catalogue.requestList(provider);
      }
    } finally {
      limit.clear();
    }
  }

  /**
   * Returns the configured model; undefined if it is unknown. A complete pair is used even if its provider does not
   * list the model, after a short wait for the provider's details.
   */
  async #chooseConfigured(signal: AbortSignal): Promise<ChosenModel | undefined> {
    const { provider: name, model } = this.#preference;
    const findNoPair = (): Promise<undefined> => Promise.resolve(undefined);
    if (name === "")
      return await this.#withTimeLimit(signal, (limitedSignal) => this.#findById(model, findNoPair, limitedSignal));
    const provider = this.#findProvider(name);
    if (!provider) return undefined;
    if (model === "")
      return await this.#withTimeLimit(signal, (limitedSignal) => this.#firstModelOf(provider, limitedSignal));
    const configuredModel = this.#catalogue.findModel(this.#preference);
    if (!configuredModel || this.#catalogue.isDescribed(configuredModel)) return configuredModel;
    await this.#withTimeLimit(
      signal,
      (limitedSignal) => this.#catalogue.waitForList(provider, limitedSignal),
      DETAILS_WAIT_MS,
    );
    return this.#catalogue.findModel(this.#preference);
  }

  /** Returns the result of `work`, or undefined after `limitMs`. Rejects with the signal's reason if the signal aborts. */
  async #withTimeLimit<T>(
    signal: AbortSignal,
    work: (limitedSignal: AbortSignal) => Promise<T>,
    limitMs = SLOW_PROVIDER_WAIT_MS,
  ) {
    const limit = createDeadline(limitMs, signal);
    try {
      return await abortable(work(limit.signal), limit.signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!limit.hasExpired) throw error;
      return undefined;
    } finally {
      limit.clear();
    }
  }
}
