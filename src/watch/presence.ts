import { ticks } from "../base/clock.js";

/** Whether a client answers questions of a session, by the id of its chain's original; `""`: of a session that it does not show. */
export type Answers = (rootId: string) => boolean;

/**
 * The clients of an agent that answer questions, whichever session they show. A question of a session that no client shows
 * waits for them, and for a while after the last one left: a page that is loaded again leaves and comes back.
 */
export class Presence {
  readonly #graceMs: number;
  /** Clients, with the session that each of them shows. */
  readonly #clients = new Map<Answers, string>();
  #graceEnd = -Infinity;

  constructor(graceMs: number) {
    this.#graceMs = graceMs;
  }

  /** Whether a client answers questions of this session, or left a moment ago. */
  answers(rootId: string): boolean {
    return [...this.#clients.keys()].some((answers) => answers(rootId)) || ticks() < this.#graceEnd;
  }

  /** Whether a client that shows this session answers its questions. */
  isShown(rootId: string): boolean {
    return [...this.#clients].some(([answers, shown]) => shown === rootId && answers(rootId));
  }

  /** A client connects, `shown` is the session that it shows; the returned function disconnects it. */
  join(answers: Answers, shown = ""): () => void {
    const client: Answers = (rootId) => answers(rootId);
    this.#clients.set(client, shown);
    return () => {
      if (this.#clients.delete(client) && client(shown)) this.#graceEnd = ticks() + this.#graceMs;
    };
  }
}
