import { monotonicMs } from "../base/clock.js";

/**
 * Whether a client answers requests of a session, by the id of its chain's original. The id is `""` for a client that
 * shows no session.
 */
export type CanAnswer = (rootId: string) => boolean;

/**
 * The clients of an agent that answer requests, and the session that each shows. A request waits for a while after the
 * last such client disconnects, because a reloaded page disconnects and connects again.
 */
export class Presence {
  readonly #graceMs: number;
  /** Clients, with the id of the session that each shows. */
  readonly #clients = new Map<CanAnswer, string>();
  #graceEnd = -Infinity;

  constructor(graceMs: number) {
    this.#graceMs = graceMs;
  }

  /** Whether a client answers requests of this session, or disconnected within the grace period. */
  answers(rootId: string): boolean {
    return [...this.#clients.keys()].some((answers) => answers(rootId)) || monotonicMs() < this.#graceEnd;
  }

  /** Whether a client that shows this session answers its requests. */
  isShown(rootId: string): boolean {
    return [...this.#clients].some(([answers, shown]) => shown === rootId && answers(rootId));
  }

  /**
   * Connects a client. `shown` is the id of the session that it shows; `""` for none. The returned function disconnects
   * it.
   */
  join(answers: CanAnswer, shown = ""): () => void {
    const client: CanAnswer = (rootId) => answers(rootId);
    this.#clients.set(client, shown);
    return () => {
      if (this.#clients.delete(client) && client(shown)) this.#graceEnd = monotonicMs() + this.#graceMs;
    };
  }
}
