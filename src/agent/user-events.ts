import type { BusEvents } from "../ports/bus-events.js";
import type { Logger } from "../ports/logger.js";
import { isVisibleTo } from "../sessions/visible-to.js";
import type { Access, EventSource, SessionAccess } from "./session-access.js";

/** The bus of an agent without the events of sessions that a user may not see. Events of one session keep their order. */
export class UserEvents {
  readonly #agent: EventSource;
  readonly #sessionAccess: SessionAccess;
  /** Undefined for a user who sees all sessions. */
  readonly #user: string | undefined;
  readonly #logger: Logger;

  constructor(agent: EventSource, sessionAccess: SessionAccess, user: string | undefined, logger: Logger) {
    this.#agent = agent;
    this.#sessionAccess = sessionAccess;
    this.#user = user;
    this.#logger = logger;
  }

  /** Like `Agent.on`. */
  on<E extends keyof BusEvents>(event: E, listener: (payload: BusEvents[E]) => void): () => void {
    return this.#agent.on(event, (payload) => {
      if (this.#user === undefined) listener(payload);
      else if ("ids" in payload) {
        // Nothing can be read of a deleted session. A client that never saw it needs no event.
        const ids = payload.ids.filter((id) => this.isKnownVisible(id));
        if (ids.length > 0) listener({ ...payload, ids });
      } else this.#deliver(findSessionId(payload), this.#user, () => listener(payload));
    });
  }

  /** Whether the session is known to be visible. Reads an unknown session for the next call. */
  isKnownVisible(id: string): boolean {
    return this.#user === undefined || this.#isVisible(this.#sessionAccess.peek(id, this.#user));
  }

  #deliver(id: string, user: string, deliver: () => void): void {
    const access = this.#sessionAccess.get(id, user);
    if (!(access instanceof Promise)) {
      if (this.#isVisible(access)) deliver();
      return;
    }
    void access
      .then((currentAccess) => this.#isVisible(currentAccess) && deliver())
      .catch((error: unknown) => this.#logger.error("event listener failed", { error }));
  }

  #isVisible(access: Access | undefined): boolean {
    return access !== undefined && isVisibleTo(access, this.#user);
  }
}

function findSessionId(payload: Exclude<BusEvents[keyof BusEvents], { ids: readonly string[] }>): string {
  if ("sessionId" in payload) return payload.sessionId;
  if ("session" in payload) return payload.session.chain.root;
  return "rootId" in payload ? payload.rootId : payload.to;
}
