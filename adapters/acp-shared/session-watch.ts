import { setTimeout as sleep } from "node:timers/promises";
import { hasCode, type Agent, type Logger, type RunRecord, type SessionState, type WatchEvent } from "gantry";
import { PendingRequests } from "./pending-requests.js";
import type { AcpClient } from "./client.js";
import { ClientReadiness, waitOrAbort, type ClientReadinessDependencies } from "./client-readiness.js";
import type { OpenSession } from "./open-session.js";
import { ToolOutputStream } from "./tool-output-stream.js";
import { RunReports } from "./run-reports.js";
import { UpdateBuilder, type UpdateBuilderDependencies } from "./update-builder.js";
import type { SessionUpdate } from "./wire.js";

/** Delay before a retry after a store failure, in ms. */
const RETRY_DELAY_MS = 1_000;
/** Delay before a call is reported as running, in ms. A call with a result or question by then is not reported. */
const STARTED_DELAY_MS = 150;
/** Number of last messages that are searched for running calls when the history is skipped. */
const MAX_SEARCHED_MESSAGES = 20;

/** Dependencies of a `SessionWatch`. */
export interface SessionWatchDependencies extends UpdateBuilderDependencies, ClientReadinessDependencies {
  logger: Logger;
  openSession: OpenSession;
  client: AcpClient;
  /** Name of the client in stored answers. */
  clientName: string;
  /** Whether runs of the session may ask this client. */
  canAsk: (session: Pick<SessionState["session"], "mode">) => boolean;
  send(update: SessionUpdate): void;
  /** Called with a session state that may differ from what the client knows. */
  onSession(session: SessionState["session"]): void;
  /** Called when the session was deleted. */
  onDeleted(): void;
  /** Aborts when the client disconnects. */
  closeSignal: AbortSignal;
}

/**
 * Sends the events of a session that other clients and processes cause. Starts after the last known message, sends each
 * message once, and omits the messages that this client's own prompts send.
 */
export class SessionWatch {
  readonly #dependencies: SessionWatchDependencies;
  readonly #agent: Agent;
  readonly #updateBuilder: UpdateBuilder;
  readonly #outputStream: ToolOutputStream;
  readonly #pendingRequests: PendingRequests;
  readonly #runReports: RunReports;
  readonly #clientReadiness: ClientReadiness;
  readonly #endController = new AbortController();
  #cursor = "";
  #state: SessionState | undefined;
  #hasPlan = false;
  /** Whether the watch has received an event, so that it receives the session's questions too. */
  isFollowing = false;
  #hasSkippedHistory = false;
  /** `seq` of the message that was unfinished when `skip` was called; undefined if there was none. */
  #unfinishedSeq: number | undefined;
  #startTimer: NodeJS.Timeout | undefined;

  constructor(dependencies: SessionWatchDependencies) {
    this.#dependencies = dependencies;
    this.#agent = dependencies.agent;
    this.#updateBuilder = new UpdateBuilder(dependencies);
    this.#runReports = new RunReports({ ...dependencies, updateBuilder: this.#updateBuilder });
    this.#clientReadiness = new ClientReadiness(dependencies);
    this.#outputStream = new ToolOutputStream((update) => dependencies.send(update), dependencies.showsTerminals);
    this.#pendingRequests = new PendingRequests({
      ...dependencies,
      updateBuilder: this.#updateBuilder,
      sendUpdates: (updates) => this.#send(updates),
    });
    const stop = () => this.end();
    dependencies.closeSignal.addEventListener("abort", stop, { once: true });
    this.#endController.signal.addEventListener("abort", () =>
      dependencies.closeSignal.removeEventListener("abort", stop),
    );
    if (dependencies.closeSignal.aborted) this.end();
  }

  /** Ends the watch; nothing more is sent. */
  end(): void {
    this.#endController.abort();
    clearTimeout(this.#startTimer);
    this.#outputStream.close();
    this.#pendingRequests.close();
  }

  /** The history as updates, message by message; `follow` continues after it. */
  async *replay(signal: AbortSignal): AsyncGenerator<SessionUpdate[]> {
    yield* this.#readStoredUpdates(signal);
    const updateBuilder = this.#updateBuilder;
    if (updateBuilder.openCallIds.length > 0) {
      const { root } = this.#dependencies.openSession;
      if (await this.#agent.sessions.isRunning(root)) yield this.#toStartedUpdates();
      else {
        // The run may have ended after the last message was read.
        yield* this.#readStoredUpdates(signal);
        // After a crash, calls have no result: without this update the client would always show them as running.
        yield updateBuilder.failOpenCalls();
      }
    }
    yield this.#toPlanUpdates();
  }

  /** Skips all stored messages; `follow` continues after them. */
  async skip(): Promise<void> {
    const { openSession } = this.#dependencies;
    const before = Number.MAX_SAFE_INTEGER;
    const lastMessages = await this.#agent.sessions.messages(openSession.root, {
      before,
      limit: MAX_SEARCHED_MESSAGES,
    });
    this.#updateBuilder.skipMessages(lastMessages);
    openSession.reportedSeq = this.#updateBuilder.lastSeq;
    this.#hasSkippedHistory = true;
    const [lastMessage] = lastMessages.slice(-1);
    if (lastMessage && !lastMessage.finished) this.#unfinishedSeq = lastMessage.seq;
  }

  /** Sends new events until the end. Never rejects. */
  follow(): Promise<void> {
    return this.#follow(this.#endController.signal);
  }

  async *#readStoredUpdates(signal: AbortSignal): AsyncGenerator<SessionUpdate[]> {
    const { root } = this.#dependencies.openSession;
    const options = { lastSeen: this.#cursor, follow: false, signal };
    for await (const event of this.#agent.sessions.watch(root, options)) {
      if ("cursor" in event) this.#cursor = event.cursor;
      if (event.type === "state") this.#setState(event.state);
      if (event.type === "message" || event.type === "delta" || event.type === "message_end")
        yield this.#updateBuilder.toUpdates(event, true);
    }
    signal.throwIfAborted();
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { logger, openSession } = this.#dependencies;
    while (!signal.aborted) {
      try {
        if (this.#cursor === "") await this.#catchUp();
        const afterSeq = this.#updateBuilder.lastSeq;
        const canAnswer = () => this.#canAnswer;
        for await (const event of this.#agent.sessions.watch(openSession.root, {
          lastSeen: this.#cursor,
          afterSeq,
          canAnswer,
          signal,
        })) {
          this.isFollowing = true;
          await this.#handleEvent(event, signal);
        }
        return;
      } catch (error) {
        if (signal.aborted || hasCode(error, "session_not_found")) return;
        logger.warn("session watch failed; retrying", { session: openSession.root, error });
        await sleep(RETRY_DELAY_MS, undefined, { signal, ref: false }).catch(() => undefined);
      }
    }
  }

  /** Skips earlier messages that the client has received or did not request. */
  async #catchUp(): Promise<void> {
    const { openSession } = this.#dependencies;
    if (openSession.reportedSeq === undefined) await this.skip();
    else if (!this.#hasSkippedHistory) this.#updateBuilder.skip(openSession.skipOwnMessages(openSession.reportedSeq));
    if (this.#unfinishedSeq !== undefined) await this.#sendMissingPart(this.#unfinishedSeq);
  }

  /** Sends the part of a message that was still missing when `skip` was called, and all later messages. */
  async #sendMissingPart(seq: number): Promise<void> {
    const options = { afterSeq: seq - 1, follow: false };
    for await (const event of this.#agent.sessions.watch(this.#dependencies.openSession.root, options)) {
      if ("cursor" in event) this.#cursor = event.cursor;
      if (event.type === "state") this.#setState(event.state);
      if (event.type === "message" || event.type === "delta" || event.type === "message_end")
        this.#send(this.#updateBuilder.toUpdates(event));
    }
  }

  /** Sets the initial state, before updates are sent. */
  #setState(state: SessionState): void {
    this.#state = state;
    if (state.run && !isActive(state.run)) this.#runReports.skipEnd(state.run);
  }

  async #handleEvent(event: WatchEvent, signal: AbortSignal): Promise<void> {
    const { openSession } = this.#dependencies;
    for (let pause = openSession.watchPause; pause && !signal.aborted; pause = openSession.watchPause)
      await waitOrAbort(pause, signal);
    await this.#clientReadiness.wait(signal);
    if (signal.aborted) return;
    if ("cursor" in event) this.#cursor = event.cursor;
    switch (event.type) {
      case "state":
        await this.#handleState(event.state);
        break;
      case "tool_progress":
        if (this.#dependencies.isEditor && this.#updateBuilder.hasOpenCall(event.callId)) {
          this.#send(this.#updateBuilder.toStartedUpdates([event.callId]));
          this.#outputStream.add(event.callId, event.text);
        }
        break;
      case "rewind":
        if (this.#updateBuilder.rewind(event.after))
          this.#dependencies.logger.debug("session rewound", { session: openSession.root });
        break;
      case "deleted":
        this.#dependencies.onDeleted();
        break;
      default:
        this.#handleMessage(event);
    }
    this.#pendingRequests.sendQuestions();
    this.#send(this.#runReports.takeEndUpdates(this.#state?.session.usage));
  }

  #handleMessage(event: Extract<WatchEvent, { type: "message" | "delta" | "message_end" }>): void {
    const { openSession } = this.#dependencies;
    const seq = event.type === "delta" ? event.seq : event.message.seq;
    if (openSession.isOwnMessage(seq)) {
      this.#updateBuilder.skip(Math.max(seq, openSession.skipOwnMessages(seq)));
      return;
    }
    if (event.type === "message") this.#outputStream.end(event.message.toolCallId);
    this.#send(this.#updateBuilder.toUpdates(event));
    this.#scheduleStarted();
  }

  async #handleState(state: SessionState): Promise<void> {
    const { openSession, onSession } = this.#dependencies;
    const { run, session } = state;
    const isFirst = this.#state === undefined;
    this.#state = state;
    onSession(session);
    this.#pendingRequests.setAsks(state.asks, this.#canAsk());
    if (state.asks.length === 0) this.#scheduleStarted();
    const isOwn = run !== null && openSession.isOwnRun(run.id);
    // The client already has the plans of its own prompt.
    const planUpdates = this.#toPlanUpdates();
    if (!isOwn) this.#send(planUpdates);
    if (!run) return;
    this.#runReports.record(run);
    if (!isOwn) this.#send(this.#runReports.toRetryUpdates(run));
    if (isActive(run)) return;
    if (isOwn) this.#runReports.skipEnd(run);
    else await this.#runReports.prepareEnd(run, isFirst);
  }

  /** The todo list as updates. A list that was always empty is not sent. */
  #toPlanUpdates(): SessionUpdate[] {
    const { plan = [] } = this.#state ?? {};
    const hasUpdate = plan.length > 0 || this.#hasPlan;
    this.#hasPlan = plan.length > 0;
    return hasUpdate ? this.#updateBuilder.toPlanUpdates(plan) : [];
  }

  /** Whether the watch can send questions to the client now. The client's own prompt sends its own questions. */
  get #canAnswer(): boolean {
    const { openSession } = this.#dependencies;
    return (
      this.#canAsk() &&
      this.#pendingRequests.canAnswer &&
      !this.#clientReadiness.isAway &&
      !openSession.promptStart &&
      !openSession.ownRun?.asksClient
    );
  }

  #canAsk(): boolean {
    return this.#state !== undefined && this.#dependencies.canAsk(this.#state.session);
  }

  /** Reports open calls as running after a delay, unless they wait for an answer or have ended. */
  #scheduleStarted(): void {
    if (!this.#dependencies.isEditor || this.#startTimer !== undefined || this.#updateBuilder.openCallIds.length === 0)
      return;
    this.#startTimer = setTimeout(() => {
      this.#startTimer = undefined;
      if (!this.#endController.signal.aborted) this.#send(this.#toStartedUpdates());
    }, STARTED_DELAY_MS).unref();
  }

  /** Reports the open calls without a question as running. */
  #toStartedUpdates(): SessionUpdate[] {
    const askedCallIds = this.#state?.asks.map(({ callId }) => callId) ?? [];
    return this.#updateBuilder.toStartedUpdates(
      this.#updateBuilder.openCallIds.filter((callId) => !askedCallIds.includes(callId)),
    );
  }

  #send(updates: readonly SessionUpdate[]): void {
    if (!this.#endController.signal.aborted) for (const update of updates) this.#dependencies.send(update);
  }
}

function isActive({ state }: RunRecord): boolean {
  return state === "running" || state === "waiting";
}
