import type { SessionDriver } from "../ports/session-driver.js";
import { notifierOf } from "../sessions/polling-notifier.js";

/** Minimum interval between two reads of a session, in ms. Other writers to the store may notify often. */
const GAP_MS = 1_000;

/** Reports sessions that other processes delete, while a caller listens. */
export class DeletedElsewhere {
  readonly #store: SessionDriver;
  readonly #onGone: (sessionId: string) => void;
  /** Functions that end a subscription, by session id. */
  readonly #heard = new Map<string, () => void>();

  /** `onGone` is called once for a session that is no longer in the store. */
  constructor(store: SessionDriver, onGone: (sessionId: string) => void) {
    this.#store = store;
    this.#onGone = onGone;
  }

  /**
   * Starts or stops listening. `sessionId` is the id of the chain's first session. `isNeeded` false: stop listening.
   */
  listen(sessionId: string, wanted: boolean): void {
    if (wanted === this.#heard.has(sessionId)) return;
    if (wanted) this.#heard.set(sessionId, this.#hear(sessionId));
    else this.#forget(sessionId);
  }

  close(): void {
    for (const id of [...this.#heard.keys()]) this.#forget(id);
  }

  #forget(sessionId: string): void {
    this.#heard.get(sessionId)?.();
    this.#heard.delete(sessionId);
  }

  #hear(sessionId: string): () => void {
    let timer: NodeJS.Timeout | undefined;
    const look = async (): Promise<void> => {
      // While the store is unreachable the result is unknown; the next notification tries again.
      const isGone = await this.#store.get(sessionId).then(
        (session) => session === undefined,
        () => false,
      );
      timer = undefined;
      if (!isGone || !this.#heard.has(sessionId)) return;
      this.#forget(sessionId);
      this.#onGone(sessionId);
    };
    const hint = () => (timer ??= setTimeout(() => void look(), GAP_MS).unref());
    const end = notifierOf(this.#store).subscribe(sessionId, hint);
    // The session may have been deleted before the subscription.
    hint();
    return () => {
      clearTimeout(timer);
      end();
    };
  }
}
