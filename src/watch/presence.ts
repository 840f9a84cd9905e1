import { monotonicMs } from "../base/clock.js";

/** Returns whether a client answers requests of a session. `rootId` is `""` for a client that shows no session. */
export type CanAnswer = (rootId: string) => boolean;

/**
 * The clients of an agent that answer requests, and the session that each shows. A request waits for `graceMs` after
 * the last such client disconnects, because a reloaded page disconnects and connects again.
 */
export class Presence {
  readonly #graceMs: number;
  /** Clients, with the id of the session that each shows. */
  readonly #clients = new Map<CanAnswer, string>();
  #graceEndMs = -Infinity;

  constructor(graceMs: number) {
    this.#graceMs = graceMs;
  }

  /** Whether a client answers requests of this session, or disconnected within the grace period. */
  canAnswer(rootId: string): boolean {
    return [...this.#clients.keys()].some((canAnswer) => canAnswer(rootId)) || monotonicMs() < this.#graceEndMs;
  }

  /** Whether a client that shows this session answers its requests. */
  isShown(rootId: string): boolean {
    return [...this.#clients].some(([canAnswer, shownSessionId]) => shownSessionId === rootId && canAnswer(rootId));
  }

  /**
   * Connects a client. `shownSessionId`: the root id of the session that the client shows; `""` for none. The returned
   * function disconnects the client.
   */
  connect(canAnswer: CanAnswer, shownSessionId = ""): () => void {
    // A new function for each connection, because two clients may pass the same function.
    const client: CanAnswer = (rootId) => canAnswer(rootId);
    this.#clients.set(client, shownSessionId);
    return () => {
      if (this.#clients.delete(client) && client(shownSessionId)) this.#graceEndMs = monotonicMs() + this.#graceMs;
    };
  }
}
