import { hasCode, type Agent, type Ask, type Logger } from "gantry";
import type { AcpClient } from "./client.js";
import type { OpenSession } from "./open-session.js";
import { askClient } from "./permission.js";
import type { UpdateSender } from "./update-sender.js";
import type { Profile, SessionUpdate } from "./wire.js";

/** Dependencies of `PendingRequests`. */
export interface PendingRequestsParts {
  agent: Agent;
  logger: Logger;
  open: OpenSession;
  client: AcpClient;
  profile: Profile;
  /** Name of the client in stored answers. */
  clientName: string;
  updateSender: UpdateSender;
  show(updates: readonly SessionUpdate[]): void;
}

interface OpenRequest {
  readonly ask: Ask;
  /** Aborts when the question is answered or withdrawn. */
  readonly closed: AbortController;
  state: "new" | "looked for" | "put";
}

/** Sends questions of runs that this client did not prompt to its user. The first answer of any client counts. */
export class PendingRequests {
  readonly #parts: PendingRequestsParts;
  readonly #open = new Map<string, OpenRequest>();
  /** Ids of open questions that the user did not answer. */
  readonly #declined = new Set<string>();
  #mayAsk = false;

  constructor(parts: PendingRequestsParts) {
    this.#parts = parts;
  }

  /** Whether the user answers new questions. */
  get canAnswer(): boolean {
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
    const { client, open, updateSender } = this.#parts;
    if (!this.#mayAsk || client.lacksPermissions) return;
    for (const request of this.#open.values()) {
      if (request.state === "put") continue;
      const ownRun = open.ownRun?.run.id === request.ask.runId ? open.ownRun : undefined;
      if (ownRun?.asksClient) request.state = "put";
      else if (ownRun) this.#put(request, ownRun.reportedCalls.waitFor(request.ask.callId, request.closed.signal));
      else if (updateSender.hasOpenCall(request.ask.callId)) this.#put(request);
      else if (request.state === "new") void this.#showCall(request);
    }
  }

  close(): void {
    for (const { closed } of this.#open.values()) closed.abort();
    this.#open.clear();
  }

  /** The call arrives with its message. If the client is not sent that message, sends the call alone. */
  async #showCall(request: OpenRequest): Promise<void> {
    const { agent, open, updateSender, logger, show } = this.#parts;
    const { ask, closed } = request;
    request.state = "looked for";
    try {
      const coming = await agent.sessions.messages(open.root, { after: Math.max(0, updateSender.seq - 1) });
      const isComing = coming.some(
        (message) =>
          !updateSender.has(message) &&
          message.parts.some((part) => part.type === "tool_call" && part.id === ask.callId),
      );
      if (isComing || closed.signal.aborted || request.state !== "looked for") return;
      if (!updateSender.hasOpenCall(ask.callId)) show(updateSender.callOfAsk(ask));
      this.put();
    } catch (error) {
      logger.warn("question not sent to the client", { session: open.root, error });
    }
  }

  #put(request: OpenRequest, before: Promise<void> = Promise.resolve()): void {
    request.state = "put";
    void before.then(() => this.#ask(request));
  }

  /** Never rejects. */
  async #ask({ ask, closed }: OpenRequest): Promise<void> {
    const { agent, client, profile, clientName, logger, open } = this.#parts;
    if (closed.signal.aborted) return;
    try {
      const kind = profile === "spec" ? "other" : ask.toolKind;
      const reply = await askClient(client, ask, kind, closed.signal);
      await agent.asks.answer(ask.id, reply, clientName);
    } catch (error) {
      // Another client answered first.
      if (closed.signal.aborted || hasCode(error, "ask_closed") || hasCode(error, "ask_not_found")) return;
      this.#declined.add(ask.id);
      logger.debug("client returned no answer to a question", { session: open.root, error });
    }
  }
}
