import { abortable, settlesWithin } from "../base/abort.js";
import { monotonicMs } from "../base/clock.js";
import type { Models } from "../models/models.js";
import type { Logger } from "../ports/logger.js";
import type { NotReady } from "../ports/readiness.js";
import type { SessionDriver } from "../ports/session-driver.js";

export interface ReadinessOptions {
  /** Opens the store if necessary. */
  store: () => Promise<SessionDriver>;
  models: Models;
  logger: Logger;
}

/** How long a result is reused, in ms. Any number of requests cause one query of the store. */
const FRESH_MS = 1_000;
/** A store that does not answer within this time counts as unreachable, in ms. */
const STORE_MS = 2_000;
/**
 * How long a check waits for the first model lists, in ms. They usually arrive before, so that the first request needs
 * no retry.
 */
const MODELS_MS = 500;
/** Maximum unanswered queries to the store. At this number, no query is sent until the store answers one. */
const UNANSWERED = 4;

const AWAY: NotReady = { code: "store_unreachable", message: "the session store cannot be reached" };
const SYNCING: NotReady = {
  code: "models_syncing",
  message: "the lists of models are being fetched for the first time",
};

/** Checks whether runs can start. Concurrent requests share a result, which is then reused for `FRESH_MS`. */
export class ReadinessCheck {
  readonly #options: ReadinessOptions;
  readonly #unanswered = new Set<Promise<unknown>>();
  #found: Promise<readonly NotReady[]> | undefined;
  #foundAt = Infinity;
  #isAway = false;

  constructor(options: ReadinessOptions) {
    this.#options = options;
  }

  /**
   * Reasons why the agent is not ready; empty if it is ready. The result is at most one second old and takes at most
   * two seconds. Rejects only with the signal's reason.
   */
  async reasons(signal?: AbortSignal): Promise<readonly NotReady[]> {
    if (this.#found === undefined || monotonicMs() - this.#foundAt > FRESH_MS) {
      this.#foundAt = Infinity;
      this.#found = this.#find().finally(() => (this.#foundAt = monotonicMs()));
    }
    return signal ? abortable(this.#found, signal) : this.#found;
  }

  async #find(): Promise<readonly NotReady[]> {
    const [isThere, isSynced] = await Promise.all([this.#reaches(), this.#options.models.synced(MODELS_MS)]);
    return [...(isThere ? [] : [AWAY]), ...(isSynced ? [] : [SYNCING])];
  }

  async #reaches(): Promise<boolean> {
    let failure: unknown = new Error(`no answer within ${STORE_MS} ms`);
    let answered = false;
    if (this.#unanswered.size < UNANSWERED) {
      // No session has this id, so this is the cheapest query.
      const asked: Promise<unknown> = this.#options
        .store()
        .then((store) => store.get(""))
        .finally(() => this.#unanswered.delete(asked));
      this.#unanswered.add(asked);
    }
    // An answer to an earlier query also shows that the store is reachable.
    const first = Promise.race(this.#unanswered).then(
      () => (answered = true),
      (error: unknown) => (failure = error),
    );
    await settlesWithin(first, STORE_MS);
    const { logger } = this.#options;
    if (!answered && !this.#isAway) logger.warn("not ready: the session store cannot be reached", { error: failure });
    if (answered && this.#isAway) logger.info("the session store can be reached again");
    this.#isAway = !answered;
    return answered;
  }
}
