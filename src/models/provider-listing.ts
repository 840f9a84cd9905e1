import { abortable, createDeadline, delay } from "../base/abort.js";
import { monotonicMs } from "../base/clock.js";
import { hasCode, ProviderError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { Model, ModelProvider } from "../ports/model-provider.js";
import { sanitizeModels } from "./sanitize-model.js";

export interface ListingOptions {
  logger: Logger;
  /** Maximum age of a list in ms before it is requested again on access. 0: never. */
  refreshMs: number;
  /** Timeout for one provider's list, in ms. */
  listTimeoutMs: number;
  /** Aborts the running request. The listing then stays as it is. */
  closeSignal: AbortSignal;
  /** Called with each received list. The request ends when the promise settles. */
  onReceived: () => Promise<void>;
}

/** After a failed request, the list is requested again on access, at the earliest after this time in ms. */
const RETRY_DELAY_MS = 1_000;
/** Minimum time in ms between two requests to one provider. */
const MIN_REQUEST_INTERVAL_MS = 250;

/** The model list of one provider: its requests, its last failure, and the provider's fallback if there is no list. */
export class ProviderListing {
  readonly provider: ModelProvider;
  models: readonly Model[] = [];
  /** Origin of `models`: an earlier process, the provider's last list, or the provider's built-in fallback. */
  source: "cache" | "provider" | "fallback" = "cache";
  /** Error of the last request; undefined after a success and before the first request. */
  failure: unknown;
  /** Start and end of the last request, on the clock of `monotonicMs`. `-Infinity`: none yet. */
  requestedAtMs = -Infinity;
  #endedAtMs = -Infinity;
  readonly #options: ListingOptions;
  #pendingRequest: Promise<void> | undefined;
  /** Message of the failure that was last logged; empty if no failure was logged since the last success. */
  #loggedFailure = "";

  constructor(provider: ModelProvider, options: ListingOptions) {
    this.provider = provider;
    this.#options = options;
  }

  /** Whether the list was received or failed in this process. */
  get hasReply(): boolean {
    return this.#endedAtMs !== -Infinity;
  }

  /** Whether the provider sent the list, in this process or an earlier one. */
  get isFromProvider(): boolean {
    return this.source === "provider" || (this.source === "cache" && this.models.length > 0);
  }

  /** Whether the list must be requested again on access. */
  get isOld(): boolean {
    if (this.#pendingRequest !== undefined || !this.hasReply) return false;
    const ageMs = monotonicMs() - this.#endedAtMs;
    const { refreshMs } = this.#options;
    return this.failure === undefined ? refreshMs > 0 && ageMs > refreshMs : ageMs > RETRY_DELAY_MS;
  }

  /** Whether a retry cannot change the list: it was received or rejected, or the provider is unreachable. */
  get isFinal(): boolean {
    return this.#pendingRequest === undefined && this.hasReply && !isTemporary(this.failure);
  }

  /** Requests the list, or returns the running request. Never rejects. */
  request(): Promise<void> {
    return (this.#pendingRequest ??= this.#fetch().finally(() => (this.#pendingRequest = undefined)));
  }

  /** Waits for the running request, or starts the first one. Rejects only with the signal's reason. */
  async wait(signal: AbortSignal): Promise<void> {
    const pendingRequest = this.hasReply ? this.#pendingRequest : this.request();
    if (pendingRequest !== undefined) await abortable(pendingRequest, signal);
  }

  /** Waits for a list that is requested after this call starts. Rejects only with the signal's reason. */
  async waitForNew(signal: AbortSignal): Promise<void> {
    const calledAtMs = monotonicMs();
    const remainingMs = this.requestedAtMs + MIN_REQUEST_INTERVAL_MS - calledAtMs;
    if (remainingMs > 0 && this.#pendingRequest === undefined) await delay(remainingMs, signal);
    // Another waiting caller may have requested the list, and the list may already have arrived.
    const pendingRequest = this.requestedAtMs >= calledAtMs ? this.#pendingRequest : this.request();
    if (pendingRequest !== undefined) await abortable(pendingRequest, signal);
  }

  /** Waits for the running request, if any. Never rejects. */
  async waitForEnd(): Promise<void> {
    await this.#pendingRequest;
  }

  /** Why the last request failed, or why there is no model yet; `""` otherwise. Starts with the provider's name. */
  describeProblem(): string {
    const { name } = this.provider;
    if (this.failure !== undefined) {
      const reason = formatFailure(this.failure);
      return reason.startsWith(`${name}: `) ? reason : `${name}: ${reason}`;
    }
    if (this.#pendingRequest !== undefined) return `${name}: no answer yet`;
    return this.models.length === 0 ? `${name}: no models` : "";
  }

  async #fetch(): Promise<void> {
    const { logger, listTimeoutMs, closeSignal, onReceived } = this.#options;
    const { provider } = this;
    this.requestedAtMs = monotonicMs();
    const limit = createDeadline(listTimeoutMs, closeSignal);
    try {
      // Work that does not wait for the list runs first.
      await new Promise<void>((resolve) => setImmediate(resolve));
      const reply: unknown = await abortable(provider.models(limit.signal), limit.signal);
      // A provider written in JavaScript may return any value, which would damage the whole catalogue.
      if (!Array.isArray(reply))
        throw new ProviderError(provider.name, "protocol", "the provider did not return a list of models");
      this.models = sanitizeModels(reply);
      this.source = "provider";
      this.failure = undefined;
      this.#loggedFailure = "";
      await onReceived();
    } catch (error) {
      if (closeSignal.aborted) return;
      this.failure = limit.hasExpired
        ? new ProviderError(provider.name, "timeout", `no list of models within ${listTimeoutMs / 1000} s`)
        : (error ?? new Error("unexpected failure"));
      await this.#useFallback();
      const reason = formatFailure(this.failure);
      // Repeated requests would fill the log with the same line.
      if (reason === this.#loggedFailure) return;
      this.#loggedFailure = reason;
      logger.warn(`models of ${provider.name} could not be listed`, { error: reason });
    } finally {
      this.#endedAtMs = monotonicMs();
      limit.clear();
    }
  }

  /** Uses the provider's fallback models if no others are known and the failure is not a rejected key. */
  async #useFallback(): Promise<void> {
    const { provider, failure, models } = this;
    if (models.length > 0 || (hasCode(failure, "provider") && failure.kind === "authentication")) return;
    const { logger } = this.#options;
    try {
      const reply: unknown = await provider.fallbackModels?.();
      if (!Array.isArray(reply) || reply.length === 0) return;
      this.models = sanitizeModels(reply).map((model) => ({ ...model, isAssumed: true as const }));
      this.source = "fallback";
      logger.info(`models of ${provider.name} could not be listed; using its built-in list`, {
        models: this.models.length,
      });
    } catch (error) {
      logger.debug(`no built-in model list for ${provider.name}`, { error });
    }
  }
}

/** Whether a retry may help. False if the provider rejects the request, sent its list, or is unreachable. */
function isTemporary(failure: unknown): boolean {
  if (hasCode(failure, "provider")) return failure.retryable && !failure.unreachable;
  return failure instanceof Error && failure.name === "TimeoutError";
}

export function formatFailure(failure: unknown): string {
  return failure instanceof Error ? failure.message : String(failure);
}
