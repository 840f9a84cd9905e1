import { abortable, settlesWithin } from "../base/abort.js";
import { ticks } from "../base/clock.js";
import type { Models } from "../models/models.js";
import type { Logger } from "../ports/logger.js";
import type { NotReady } from "../ports/readiness.js";
import type { SessionDriver } from "../ports/session-driver.js";

export interface ReadinessOptions {
  /** Opened where it is not. */
  store: () => Promise<SessionDriver>;
  models: Models;
  logger: Logger;
}

/** What was found holds so long, in ms: any number may ask, and the store is asked once. */
const FRESH_MS = 1_000;
/** A store that does not answer for so long, in ms, is as good as away. */
const STORE_MS = 2_000;
/** Most lists of models are there before; who asks first need not come again for them. In ms. */
const MODELS_MS = 500;
/** Questions that a store may leave unanswered; then nothing more is asked before it answers one of them. */
const UNANSWERED = 4;

const AWAY: NotReady = { code: "store_unreachable", message: "the session store cannot be reached" };
const SYNCING: NotReady = {
  code: "models_syncing",
  message: "the lists of models are being fetched for the first time",
};

/** Finds out whether runs can begin: whoever asks meanwhile shares the answer, and for a while whoever asks then. */
export class ReadinessCheck {
  readonly #options: ReadinessOptions;
  readonly #unanswered = new Set<Promise<unknown>>();
  #found: Promise<readonly NotReady[]> | undefined;
  #foundAt = Infinity;
  #isAway = false;

  constructor(options: ReadinessOptions) {
    this.#options = options;
  }

  /** Why not, a second ago at most. Takes two seconds, whatever the store does. Rejects with the signal's reason alone. */
  async reasons(signal?: AbortSignal): Promise<readonly NotReady[]> {
    if (this.#found === undefined || ticks() - this.#foundAt > FRESH_MS) {
      this.#foundAt = Infinity;
      this.#found = this.#find().finally(() => (this.#foundAt = ticks()));
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
      // No session has this id: the least that can be asked.
      const asked: Promise<unknown> = this.#options
        .store()
        .then((store) => store.get(""))
        .finally(() => this.#unanswered.delete(asked));
      this.#unanswered.add(asked);
    }
    // One that it owes since long is an answer too.
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
