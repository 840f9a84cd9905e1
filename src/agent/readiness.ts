import { abortable, settlesWithin } from "../base/abort.js";
import { monotonicMs } from "../base/clock.js";
import type { Models } from "../models/models.js";
import { hasCode } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { ReadinessProblem } from "../ports/readiness.js";
import type { SessionDriver } from "../ports/session-driver.js";

export interface ReadinessOptions {
  /** Opens the store if necessary. */
  store: () => Promise<SessionDriver>;
  models: Models;
  logger: Logger;
}

/** Lifetime of a result, in ms. Any number of requests cause one query of the store. */
const CACHE_TTL_MS = 1_000;
/** A store that does not answer within this time counts as unreachable, in ms. */
const STORE_TIMEOUT_MS = 2_000;
/**
 * Maximum wait of a check for the first model lists, in ms. The lists usually arrive in this time, so that the
 * first request needs no retry.
 */
const MODELS_TIMEOUT_MS = 500;
/** Maximum unanswered queries to the store. At this number, no query is sent until the store answers one. */
const MAX_PENDING_QUERIES = 4;

const STORE_UNREACHABLE: ReadinessProblem = {
  code: "store_unreachable",
  message: "the session store cannot be reached",
};
const STORE_FULL: ReadinessProblem = { code: "store_full", message: "the session store has no space left" };
const MODELS_SYNCING: ReadinessProblem = {
  code: "models_syncing",
  message: "the lists of models are being fetched for the first time",
};

/** Checks whether runs can start. Concurrent requests share a result, which is then reused for `CACHE_TTL_MS`. */
export class ReadinessCheck {
  readonly #options: ReadinessOptions;
  readonly #pendingQueries = new Set<Promise<unknown>>();
  #reasonsPromise: Promise<readonly ReadinessProblem[]> | undefined;
  #checkedAtMs = Infinity;
  /** The problem of the last check, which was logged. */
  #loggedProblem: string | undefined;

  constructor(options: ReadinessOptions) {
    this.#options = options;
  }

  /**
   * Returns the reasons why the agent is not ready; empty if it is ready. The result is at most one second old and
   * takes at most two seconds. Rejects only with the signal's reason.
   */
  async reasons(signal?: AbortSignal): Promise<readonly ReadinessProblem[]> {
    if (this.#reasonsPromise === undefined || monotonicMs() - this.#checkedAtMs > CACHE_TTL_MS) {
      this.#checkedAtMs = Infinity;
      this.#reasonsPromise = this.#check().finally(() => (this.#checkedAtMs = monotonicMs()));
    }
    return signal ? abortable(this.#reasonsPromise, signal) : this.#reasonsPromise;
  }

  async #check(): Promise<readonly ReadinessProblem[]> {
    const [storeProblem, isSynced] = await Promise.all([
      this.#findStoreProblem(),
      this.#options.models.waitForLists(MODELS_TIMEOUT_MS),
    ]);
    return [...(storeProblem ? [storeProblem] : []), ...(isSynced ? [] : [MODELS_SYNCING])];
  }

  async #findStoreProblem(): Promise<ReadinessProblem | undefined> {
    let failure: unknown = new Error(`no answer within ${STORE_TIMEOUT_MS} ms`);
    let hasAnswered = false;
    if (this.#pendingQueries.size < MAX_PENDING_QUERIES) {
      // Without `probe`: no session has this id, so this is the cheapest query.
      const query: Promise<unknown> = this.#options
        .store()
        .then(async (store) => (store.probe ? store.probe() : store.get("")))
        .finally(() => this.#pendingQueries.delete(query));
      this.#pendingQueries.add(query);
    }
    // An answer to an earlier query also shows that the store is reachable.
    const firstAnswer = Promise.race(this.#pendingQueries).then(
      () => (hasAnswered = true),
      (error: unknown) => (failure = error),
    );
    await settlesWithin(firstAnswer, STORE_TIMEOUT_MS);
    const { logger } = this.#options;
    const problem = hasAnswered ? undefined : toProblem(failure);
    if (problem && problem.code !== this.#loggedProblem)
      logger.warn(`${problem.message}; reporting not ready`, { error: failure });
    if (!problem && this.#loggedProblem !== undefined) logger.info("the session store accepts changes again");
    this.#loggedProblem = problem?.code;
    return problem;
  }
}

function toProblem(failure: unknown): ReadinessProblem {
  if (!hasCode(failure, "store")) return STORE_UNREACHABLE;
  if (failure.isFull) return STORE_FULL;
  if (failure.lockHolder === undefined) return STORE_UNREACHABLE;
  return { code: "store_locked", message: `the session store is locked by ${failure.lockHolder}` };
}
