import { hasCode, type Agent, type Ask, type Logger } from "gantry";
import type { AcpClient } from "./client.js";
import type { OpenSession } from "./open-session.js";
import { askClient } from "./permission.js";
import type { UpdateBuilder } from "./update-builder.js";
import type { Profile, SessionUpdate } from "./wire.js";

/** Dependencies of `PendingRequests`. */
export interface PendingRequestsDependencies {
  agent: Agent;
  logger: Logger;
  openSession: OpenSession;
  client: AcpClient;
  profile: Profile;
  /** Name of the client in stored answers. */
  clientName: string;
  updateBuilder: UpdateBuilder;
  sendUpdates(updates: readonly SessionUpdate[]): void;
}

interface OpenRequest {
  readonly ask: Ask;
  /** Aborts when the question is answered or withdrawn. */
  readonly closeController: AbortController;
  /** `searched`: `#showCall` has searched for the message with the tool call. */
  state: "new" | "searched" | "sent";
}

/** Sends questions of runs that this client did not prompt to its user. The first answer of any client counts. */
export class PendingRequests {
  readonly #dependencies: PendingRequestsDependencies;
  readonly #openRequestsByAskId = new Map<string, OpenRequest>();
  /** Ids of open questions for which the client returned no answer. */
  readonly #unansweredIds = new Set<string>();
  #mayAsk = false;

  constructor(dependencies: PendingRequestsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Whether the client may still answer: it has permission requests, and no open question was left unanswered. */
  get canAnswer(): boolean {
    return !this.#dependencies.client.lacksPermissions && this.#unansweredIds.size === 0;
  }

  /** Replaces the list of open questions. `canAsk`: whether runs of the session may ask this client. */
  setAsks(asks: readonly Ask[], canAsk: boolean): void {
    this.#mayAsk = canAsk;
    for (const [id, { closeController }] of this.#openRequestsByAskId) {
      if (asks.some((ask) => ask.id === id)) continue;
      this.#openRequestsByAskId.delete(id);
      this.#unansweredIds.delete(id);
      closeController.abort();
    }
    for (const ask of asks)
      if (!this.#openRequestsByAskId.has(ask.id))
        this.#openRequestsByAskId.set(ask.id, { ask, closeController: new AbortController(), state: "new" });
  }

  /** Sends the questions whose tool calls the client has already received. */
  sendQuestions(): void {
    const { client, openSession, updateBuilder } = this.#dependencies;
    if (!this.#mayAsk || client.lacksPermissions) return;
    for (const request of this.#openRequestsByAskId.values()) {
      if (request.state === "sent") continue;
      const ownRun = openSession.ownRun?.run.id === request.ask.runId ? openSession.ownRun : undefined;
      // The watch may have read this state before the run ended.
      if (openSession.isAskedByPrompt(request.ask.runId)) request.state = "sent";
      else if (ownRun)
        this.#sendQuestion(request, ownRun.reportedCalls.waitFor(request.ask.callId, request.closeController.signal));
      else if (updateBuilder.hasOpenCall(request.ask.callId)) this.#sendQuestion(request);
      else if (request.state === "new") void this.#showCall(request);
    }
  }

  close(): void {
    for (const { closeController } of this.#openRequestsByAskId.values()) closeController.abort();
    this.#openRequestsByAskId.clear();
  }

  /**
   * Sends the call of a question if no message with this call will be sent. Otherwise the client gets it with the
   * message.
   */
  async #showCall(request: OpenRequest): Promise<void> {
    const { agent, openSession, updateBuilder, logger, sendUpdates } = this.#dependencies;
    const { ask, closeController } = request;
    request.state = "searched";
    try {
      const nextMessages = await agent.sessions.messages(openSession.root, {
        after: Math.max(0, updateBuilder.lastSeq - 1),
      });
      const isExpected = nextMessages.some(
        (message) =>
          !updateBuilder.hasReported(message) &&
          message.parts.some((part) => part.type === "tool_call" && part.id === ask.callId),
      );
      if (isExpected || closeController.signal.aborted || request.state !== "searched") return;
      if (!updateBuilder.hasOpenCall(ask.callId)) sendUpdates(updateBuilder.toAskedCallUpdates(ask));
      this.sendQuestions();
    } catch (error) {
      logger.warn("question not sent to the client", { session: openSession.root, error });
    }
  }

  #sendQuestion(request: OpenRequest, callReport: Promise<void> = Promise.resolve()): void {
    request.state = "sent";
    void callReport.then(() => this.#askUser(request));
  }

  /** Sends the question and stores the user's answer. Never rejects. */
  async #askUser({ ask, closeController }: OpenRequest): Promise<void> {
    const { agent, client, profile, clientName, logger, openSession } = this.#dependencies;
    if (closeController.signal.aborted) return;
    try {
      const kind = profile === "spec" ? "other" : ask.toolKind;
      const reply = await askClient(client, ask, kind, closeController.signal);
      await agent.asks.answer(ask.id, reply, clientName);
    } catch (error) {
      // Another client answered first.
      if (closeController.signal.aborted || hasCode(error, "ask_closed") || hasCode(error, "ask_not_found")) return;
      this.#unansweredIds.add(ask.id);
      logger.debug("client returned no answer to a question", { session: openSession.root, error });
    }
  }
}
