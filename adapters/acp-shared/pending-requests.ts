import { hasCode, type Agent, type Ask, type Logger } from "gantry";
import type { AcpClient } from "./client.js";
import type { OpenSession } from "./open-session.js";
import { askClient } from "./permission.js";
import type { UpdateSender } from "./update-sender.js";
import type { Profile, SessionUpdate } from "./wire.js";

/** Dependencies of `PendingRequests`. */
export interface AskedParts {
  agent: Agent;
  logger: Logger;
  open: OpenSession;
  client: AcpClient;
  profile: Profile;
  /** Name of the client in stored answers. */
  askedAt: string;
  teller: UpdateSender;
  show(updates: readonly SessionUpdate[]): void;
}

interface Open {
  readonly ask: Ask;
  /** Aborts when the question is answered or withdrawn. */
  readonly closed: AbortController;
  state: "new" | "looked for" | "put";
}

/** Sends questions of runs that this client did not prompt to its user. The first answer of any client counts. */
export class PendingRequests {
  readonly #parts: AskedParts;
  readonly #open = new Map<string, Open>();
  /** Ids of open questions that the user did not answer. */
  readonly #declined = new Set<string>();
  #mayAsk = false;

  constructor(parts: AskedParts) {
    this.#parts = parts;
  }

  /** Whether the user answers new questions. */
  get answers(): boolean {
    return !this.#parts.client.lacksPermissions && this.#declined.size === 0;
  }

  /** Replaces the list of open questions. */
  changed(asks: readonly Ask[], mayAsk: boolean): void {
    this.#mayAsk = mayAsk;
    for (const [id, { closed }] of this.#open) {
      if (asks.some((ask) => ask.id === id)) continue;
      this.#open.delete(id);
      this.#declined.delete(id);
      closed.abort();
    }
    for (const ask of asks)
      if (!this.#open.has(ask.id)) this.#open.set(ask.id, { ask, closed: new AbortController(), state: "new" });
  }

  /** Sends the questions whose tool calls the client has already received. */
  put(): void {
    const { client, open, teller } = this.#parts;
    if (!this.#mayAsk || client.lacksPermissions) return;
    for (const one of this.#open.values()) {
      if (one.state === "put") continue;
      const own = open.own?.run.id === one.ask.runId ? open.own : undefined;
      if (own?.asks) one.state = "put";
      else if (own) this.#put(one, own.shown.call(one.ask.callId, one.closed.signal));
      else if (teller.knows(one.ask.callId)) this.#put(one);
      else if (one.state === "new") void this.#look(one);
    }
  }

  close(): void {
    for (const { closed } of this.#open.values()) closed.abort();
    this.#open.clear();
  }

  /** The call arrives with its message. If the client is not sent that message, sends the call alone. */
  async #look(one: Open): Promise<void> {
    const { agent, open, teller, logger, show } = this.#parts;
    const { ask, closed } = one;
    one.state = "looked for";
    try {
      const coming = await agent.sessions.messages(open.root, { after: Math.max(0, teller.seq - 1) });
      const isComing = coming.some(
        (message) =>
          !teller.has(message) && message.parts.some((part) => part.type === "tool_call" && part.id === ask.callId),
      );
      if (isComing || closed.signal.aborted || one.state !== "looked for") return;
      if (!teller.knows(ask.callId)) show(teller.callOfAsk(ask));
      this.put();
    } catch (error) {
      logger.warn("a question could not be put", { session: open.root, error });
    }
  }

  #put(one: Open, before: Promise<void> = Promise.resolve()): void {
    one.state = "put";
    void before.then(() => this.#ask(one));
  }

  /** Never rejects. */
  async #ask({ ask, closed }: Open): Promise<void> {
    const { agent, client, profile, askedAt, logger, open } = this.#parts;
    if (closed.signal.aborted) return;
    try {
      const kind = profile === "spec" ? "other" : ask.toolKind;
      const reply = await askClient(client, ask, kind, closed.signal);
      await agent.asks.answer(ask.id, reply, askedAt);
    } catch (error) {
      // Another client answered first.
      if (closed.signal.aborted || hasCode(error, "ask_closed") || hasCode(error, "ask_not_found")) return;
      this.#declined.add(ask.id);
      logger.debug("a client's person gave no answer", { session: open.root, error });
    }
  }
}
