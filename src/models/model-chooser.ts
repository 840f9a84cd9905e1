import { createDeadline, delay, withTimeLimit } from "../base/abort.js";
import { monotonicMs } from "../base/clock.js";
import { hasCode, ModelSelectionError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { ModelProvider } from "../ports/model-provider.js";
import type { Catalogue, ChosenModel, ModelPair } from "./catalogue.js";
import { formatFailure } from "./provider-listing.js";

export interface ModelChooserOptions {
  providers: readonly ModelProvider[];
}

/** Finds the pair that was last used in the project folder. */
export type RecentPairFinder = () => Promise<ModelPair | undefined>;

/** Pauses between two requests for missing models: first and maximum. */
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 5_000;
/** Maximum time in ms that a run waits for a slow provider while another provider has a model. */
const SLOW_PROVIDER_WAIT_MS = 5_000;
/** Maximum time in ms that the configured model waits for its details from the provider. */
const DETAILS_WAIT_MS = 2_000;

/** Chooses a model of the catalogue for a run. Requests lists that a choice lacks, and waits for them. */
export class ModelChooser {
  readonly #catalogue: Catalogue;
  readonly #preference: ModelPair;
  readonly #providers: readonly ModelProvider[];

  /** @param preference The configured preference; `""` for a name that is not configured. */
  constructor(catalogue: Catalogue, preference: ModelPair, { providers }: ModelChooserOptions) {
    this.#catalogue = catalogue;
    this.#preference = preference;
    this.#providers = providers;
  }

  /**
   * Chooses the model of a run; see `Models.resolve`. Rejects with `ModelSelectionError` as soon as no provider can
   * deliver a model, and with the signal's reason. `logger` receives warnings about names that are not used.
   */
  async choose(
    requestedPair: ModelPair,
    storedPair: ModelPair,
    findRecentPair: RecentPairFinder,
    signal: AbortSignal,
    logger: Logger,
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
      const match = await withTimeLimit(SLOW_PROVIDER_WAIT_MS, signal, (limitedSignal) =>
        pair.provider !== ""
          ? this.#findPair(pair, limitedSignal)
          : this.#findById(pair.model, findRecentPair, limitedSignal),
      );
      if (match) return match;
      logger.warn("requested model unknown; using the preferred model", { ...pair });
    }
    return await this.#choosePreferred(findRecentPair, signal, logger);
  }

  #findProvider(name: string): ModelProvider | undefined {
    return this.#providers.find((provider) => provider.name === name);
  }

  #describeListFailure(provider: ModelProvider): string {
    const { failure } = this.#catalogue.listingOf(provider);
    return failure === undefined ? "" : ` (its list could not be fetched: ${formatFailure(failure)})`;
  }

  /** Finds an exact pair. If the catalogue lacks the pair, requests its provider's list. */
  async #findPair(pair: ModelPair, signal: AbortSignal): Promise<ChosenModel | undefined> {
    const knownModel = this.#catalogue.findModel(pair);
    const provider = this.#findProvider(pair.provider);
    if (knownModel || !provider) return knownModel;
    const listing = this.#catalogue.listingOf(provider);
    const calledAtMs = monotonicMs();
    await listing.wait(signal);
    const listedModel = this.#catalogue.findModel(pair);
    // A list that was requested before this call may be older than the model. Request such a list again.
    if (listedModel || listing.requestedAtMs >= calledAtMs) return listedModel;
    await listing.waitForNew(signal);
    return this.#catalogue.findModel(pair);
  }

  /** Finds a model by its id alone: of the preferred provider, otherwise of the first provider with such a model. */
  async #findById(id: string, findRecentPair: RecentPairFinder, signal: AbortSignal): Promise<ChosenModel | undefined> {
    const findCandidates = (): ChosenModel[] =>
      this.#providers.flatMap((provider) => this.#catalogue.findModel({ provider: provider.name, model: id }) ?? []);
    let candidates = findCandidates();
    if (candidates.length === 0) {
      const requests = Promise.all(
        this.#providers.map((provider) => this.#catalogue.listingOf(provider).waitForNew(signal)),
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
    findRecentPair: RecentPairFinder,
    signal: AbortSignal,
  ): Promise<ChosenModel> {
    const preferredPair = await this.#getPreferredPair(findRecentPair);
    const preferredModel =
      preferredPair.provider === provider.name ? this.#catalogue.findModel(preferredPair) : undefined;
    if (preferredModel) return preferredModel;
    const listing = this.#catalogue.listingOf(provider);
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
      const firstModel = await this.#firstModelOf(provider, signal);
      if (firstModel) return firstModel;
      if (listing.isFinal) {
        const fallback = this.#firstFallbackOf([provider]);
        if (fallback) return fallback;
        throw new ModelSelectionError(`${provider.name} has no model${this.#describeListFailure(provider)}`);
      }
      await delay(pauseMs, signal);
      await listing.waitForNew(signal);
    }
  }

  async #firstModelOf(provider: ModelProvider, signal: AbortSignal): Promise<ChosenModel | undefined> {
    if (this.#catalogue.modelsOf(provider).length === 0) await this.#catalogue.listingOf(provider).wait(signal);
    // Fallback models are used only by name, or if there are no other models.
    const model = this.#catalogue.modelsOf(provider).find(({ isAssumed }) => isAssumed !== true);
    return model && { provider, model };
  }

  /** The first fallback model of these providers. Unreachable providers are skipped. */
  #firstFallbackOf(providers: readonly ModelProvider[]): ChosenModel | undefined {
    for (const provider of providers) {
      const [model] = this.#catalogue.modelsOf(provider);
      const { failure } = this.#catalogue.listingOf(provider);
      if (model && !(hasCode(failure, "provider") && failure.unreachable)) return { provider, model };
    }
    return undefined;
  }

  /** The configured pair if both names are configured, otherwise the pair last used in the project folder. */
  async #getPreferredPair(findRecentPair: RecentPairFinder): Promise<ModelPair> {
    const preference = this.#preference;
    if (preference.provider !== "" && preference.model !== "") return preference;
    const recentPair = await findRecentPair();
    return recentPair && this.#catalogue.findModel(recentPair) ? recentPair : preference;
  }

  async #choosePreferred(findRecentPair: RecentPairFinder, signal: AbortSignal, logger: Logger): Promise<ChosenModel> {
    const providers = this.#providers;
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
          void this.#catalogue
            .listingOf(provider)
            .wait(limit.signal)
            .catch(() => undefined);
      for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
        for (const provider of providers) {
          const firstModel = await this.#firstModelOf(provider, limit.signal).catch(() => undefined);
          signal.throwIfAborted();
          if (firstModel) return firstModel;
        }
        // No provider has a model. Retry temporary failures until the time limit, and report permanent failures now.
        if (providers.every((provider) => this.#catalogue.listingOf(provider).isFinal)) {
          const fallback = this.#firstFallbackOf(providers);
          if (fallback) return fallback;
          const failures = this.#catalogue.describeFailures();
          throw new ModelSelectionError(
            failures === "" ? "no provider has a model" : `no model available (${failures})`,
          );
        }
        await delay(pauseMs, signal);
        for (const provider of providers) void this.#catalogue.listingOf(provider).request();
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
    if (name === "") {
      const findNoPair: RecentPairFinder = () => Promise.resolve(undefined);
      return await withTimeLimit(SLOW_PROVIDER_WAIT_MS, signal, (limitedSignal) =>
        this.#findById(model, findNoPair, limitedSignal),
      );
    }
    const provider = this.#findProvider(name);
    if (!provider) return undefined;
    if (model === "")
      return await withTimeLimit(SLOW_PROVIDER_WAIT_MS, signal, (limitedSignal) =>
        this.#firstModelOf(provider, limitedSignal),
      );
    const configuredModel = this.#catalogue.findModel(this.#preference);
    if (!configuredModel || this.#catalogue.isDescribed(configuredModel)) return configuredModel;
    await withTimeLimit(DETAILS_WAIT_MS, signal, (limitedSignal) =>
      this.#catalogue.listingOf(provider).wait(limitedSignal),
    );
    return this.#catalogue.findModel(this.#preference);
  }
}
