import type { BusEvents } from "../ports/bus-events.js";
import type { Logger } from "../ports/logger.js";

/** The agent's member that `UserEvents` uses. */
interface EventSource {
  on<E extends keyof BusEvents>(event: E, listener: (payload: BusEvents[E]) => void): () => void;
}

/** Maximum number of sessions whose visibility is remembered. Beyond it, all are forgotten. */
const MAX_SESSIONS = 10_000;

/** The bus of an agent without the events of sessions that a user may not see. Events of one session keep their order. */
export class UserEvents {
  readonly #agent: EventSource;
  readonly #isVisible: (id: string) => Promise<boolean>;
  readonly #logger: Logger;
  /** Whether the user may see a session, by its id. A promise while the session is read. */
  readonly #visibility = new Map<string, boolean | Promise<boolean>>();

  /** `isVisible` reads whether the user may see a session. */
  constructor(agent: EventSource, isVisible: (id: string) => Promise<boolean>, logger: Logger) {
    this.#agent = agent;
    this.#isVisible = isVisible;
    this.#logger = logger;
    agent.on("session.updated", ({ sessionId, fields }) => {
      if (fields.includes("shared")) this.#visibility.delete(sessionId);
    });
  }

  /** Like `Agent.on`. */
  on<E extends keyof BusEvents>(event: E, listener: (payload: BusEvents[E]) => void): () => void {
    return this.#agent.on(event, (payload) => {
      // Nothing can be read of a deleted session. A client that never saw it needs no event.
      if ("ids" in payload) {
        const ids = payload.ids.filter((id) => this.isKnownVisible(id));
        if (ids.length > 0) listener({ ...payload, ids });
        return;
      }
      this.#deliver(findSessionId(payload), () => listener(payload));
    });
  }

  /** Whether the session is known to be visible. Reads an unknown session for the next call. */
  isKnownVisible(id: string): boolean {
    return this.#read(id) === true;
  }

  /** Remembers a session that the user may see. */
  markVisible(id: string): void {
    this.#remember(id, true);
  }

  #deliver(id: string, deliver: () => void): void {
    const isVisible = this.#read(id);
    if (isVisible === true) deliver();
    else if (isVisible !== false)
      void isVisible
        .then((isVisibleNow) => isVisibleNow && deliver())
        .catch((error: unknown) => this.#logger.error("event listener failed", { error }));
  }

  #read(id: string): boolean | Promise<boolean> {
    const isVisible = this.#visibility.get(id);
    if (isVisible !== undefined) return isVisible;
    const reading = this.#isVisible(id).then(
      (isVisible) => {
        this.#remember(id, isVisible);
        return isVisible;
      },
      () => {
        this.#visibility.delete(id);
        return false;
      },
    );
    this.#remember(id, reading);
    return reading;
  }

  #remember(id: string, isVisible: boolean | Promise<boolean>): void {
    if (this.#visibility.size >= MAX_SESSIONS) this.#visibility.clear();
    this.#visibility.set(id, isVisible);
  }
}

function findSessionId(payload: Exclude<BusEvents[keyof BusEvents], { ids: readonly string[] }>): string {
  if ("sessionId" in payload) return payload.sessionId;
  if ("session" in payload) return payload.session.chain.root;
  return "rootId" in payload ? payload.rootId : payload.to;
}
