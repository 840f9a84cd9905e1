import type { SessionDriver } from "../ports/session-driver.js";
import { notifierOf } from "../sessions/polling-notifier.js";

/** Minimum interval between two reads of a session, in ms. Other writers to the store may notify often. */
const MIN_READ_INTERVAL_MS = 1_000;

/** Reports sessions that other processes delete, while a caller listens. */
export class DeletedElsewhere {
  readonly #store: SessionDriver;
  readonly #onDeleted: (sessionId: string) => void;
  /** Functions that end a subscription, by session id. */
  readonly #subscriptions = new Map<string, () => void>();

  /** `onGone` is called once for a session that is no longer in the store. */
  constructor(store: SessionDriver, onGone: (sessionId: string) => void) {
    this.#store = store;
    this.#onDeleted = onGone;
  }

  /**
   * Starts or stops listening. `sessionId` is the id of the chain's first session. `isNeeded` false: stop listening.
   */
  listen(sessionId: string, isNeeded: boolean): void {
    if (isNeeded === this.#subscriptions.has(sessionId)) return;
    if (isNeeded) this.#subscriptions.set(sessionId, this.#subscribe(sessionId));
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
    const look = async (): Promise<void> => {
      // While the store is unreachable the result is unknown; the next notification tries again.
      const isGone = await this.#store.get(sessionId).then(
        (session) => session === undefined,
        () => false,
      );
      timer = undefined;
      if (!isGone || !this.#subscriptions.has(sessionId)) return;
      this.#unsubscribe(sessionId);
      this.#onDeleted(sessionId);
    };
    const hint = () => (timer ??= setTimeout(() => void look(), MIN_READ_INTERVAL_MS).unref());
    const end = notifierOf(this.#store).subscribe(sessionId, hint);
    // The session may have been deleted before the subscription.
    hint();
    return () => {
      clearTimeout(timer);
      end();
    };
  }
}
