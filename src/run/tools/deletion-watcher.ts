import type { SessionDriver } from "../../ports/session-driver.js";
import { notifierOf } from "../../sessions/polling-notifier.js";

/** Minimum interval between two reads of a session, in ms. Other writers to the store may notify often. */
const MIN_READ_INTERVAL_MS = 1_000;

/** Reports sessions that other processes delete, while a caller listens. */
export class DeletionWatcher {
  readonly #store: SessionDriver;
  readonly #onDeleted: (sessionId: string) => void;
  readonly #subscriptions = new Map<string, () => void>();

  /** `onDeleted` is called once for a session that is no longer in the store. */
  constructor(store: SessionDriver, onDeleted: (sessionId: string) => void) {
    this.#store = store;
    this.#onDeleted = onDeleted;
  }

  /** Starts or stops listening. `sessionId` is the id of the chain's first session. */
  setListening(sessionId: string, shouldListen: boolean): void {
    if (shouldListen === this.#subscriptions.has(sessionId)) return;
    if (shouldListen) this.#subscriptions.set(sessionId, this.#subscribe(sessionId));
    else this.#unsubscribe(sessionId);
  }

  close(): void {
    for (const id of [...this.#subscriptions.keys()]) this.#unsubscribe(id);
  }

  #unsubscribe(sessionId: string): void {
    this.#subscriptions.get(sessionId)?.();
    this.#subscriptions.delete(sessionId);
  }

  #subscribe(sessionId: string): () => void {
    let timer: NodeJS.Timeout | undefined;
    const checkSession = async (): Promise<void> => {
      // If the store is unreachable, the next notification tries again.
      const isDeleted = await this.#store.get(sessionId).then(
        (session) => session === undefined,
        () => false,
      );
      timer = undefined;
      if (!isDeleted || !this.#subscriptions.has(sessionId)) return;
      this.#unsubscribe(sessionId);
      this.#onDeleted(sessionId);
    };
    const scheduleCheck = () => (timer ??= setTimeout(() => void checkSession(), MIN_READ_INTERVAL_MS).unref());
    const unsubscribe = notifierOf(this.#store).subscribe(sessionId, scheduleCheck);
    // The session may have been deleted before the subscription.
    scheduleCheck();
    return () => {
      clearTimeout(timer);
      unsubscribe();
    };
  }
}
