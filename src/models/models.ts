import { abortable, createDeadline, withTimeLimit } from "../base/abort.js";
import { Catalogue, type CatalogueCache, type ChosenModel, type ModelEntry, type ModelPair } from "./catalogue.js";
import { ModelChooser } from "./model-chooser.js";
import { ModelTimeoutError } from "../ports/errors.js";
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

/** Interval in ms at which a waiting caller receives the reason for the wait. */
const WAIT_REPORT_INTERVAL_MS = 1_000;

/** The catalogue of all providers, and the selection of a model. */
export class Models {
  readonly #options: ModelsOptions;
  readonly #catalogue: Catalogue;
  readonly #chooser: ModelChooser;
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
    this.#chooser = new ModelChooser(this.#catalogue, this.#preference, options);
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
    await withTimeLimit(this.#options.timeoutMs, signal, async (limitedSignal) => {
      await this.#catalogue.waitForLists(limitedSignal);
      await this.#catalogue.refreshAndWait(limitedSignal);
    });
    return this.entries();
  }

  /**
   * Whether every provider has sent its list or failed in this process. Requests missing lists and waits at most
   * `waitMs` for them.
   */
  async waitForLists(waitMs: number): Promise<boolean> {
    if (!this.#catalogue.hasAllReplies())
      await withTimeLimit(waitMs, undefined, (signal) => this.#catalogue.waitForLists(signal));
    return this.#catalogue.hasAllReplies();
  }

  /**
   * Selects the model of a run:
   * - Both names: exactly this pair, or `ModelSelectionError`.
   * - One name: the best match. A configured provider is never replaced by another.
   * - Neither: the session's `storedPair`, then the preferred pair.
   *
   * An unknown stored pair, or an unknown single name, falls back to the preferred model with a warning. Missing models
   * are requested again. `onWaiting` receives the reason while no model is available. `logger`: default that of the
   * agent.
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
    logger = this.#options.logger,
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
      return await this.#chooser.choose(requestedPair, storedPair, findRecentPair, limit.signal, logger);
    } catch (error) {
      signal.throwIfAborted();
      if (!limit.hasExpired) throw error;
      const failures = this.#catalogue.describeFailures();
      logger.warn("no model available within the time limit", { why: failures });
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
    const { providers, logger } = this.#options;
    const provider = providers.find(({ name }) => name === this.#preference.provider) ?? providers[0];
    if (provider?.prepare === undefined || signal.aborted) return;
    try {
      await abortable(provider.prepare(), signal);
    } catch (error) {
      logger.debug("provider could not be prepared", { provider: provider.name, error });
    }
  }

  /** Aborts running requests and waits for them. */
  async close(): Promise<void> {
    await this.#catalogue.close();
  }
}
