import type { SessionDriver } from "../ports/session-driver.js";
import { notifierOf } from "../sessions/polling-notifier.js";

/** A session is looked for at most so often, in ms: what is kept going writes nothing, but others write to the store. */
const GAP_MS = 1_000;

/** Tells of sessions that other processes delete, as long as somebody here needs to know. */
export class DeletedElsewhere {
  readonly #store: SessionDriver;
  readonly #onGone: (sessionId: string) => void;
  /** By session, what ends the listening. */
  readonly #heard = new Map<string, () => void>();

  /** `onGone` is called once for a session that is not in the store. */
  constructor(store: SessionDriver, onGone: (sessionId: string) => void) {
    this.#store = store;
    this.#onGone = onGone;
  }

  /** Of sessions by the id of their chain's first. `false`: nobody needs to know any more. */
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
      // Of a store that is away nothing is known: the next hint asks again.
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
    // It may have gone before anybody listened.
    hint();
    return () => {
      clearTimeout(timer);
      end();
    };
  }
}
