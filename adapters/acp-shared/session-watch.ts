import { setTimeout as sleep } from "node:timers/promises";
import { hasCode, type Agent, type Logger, type RunRecord, type SessionState, type WatchEvent } from "gantry";
import { PendingRequests } from "./pending-requests.js";
import type { AcpClient } from "./client.js";
import type { OpenSession } from "./open-session.js";
import { ToolOutputStream } from "./tool-output-stream.js";
import { StoredRunUsage } from "./run-usage.js";
import { UpdateBuilder, type UpdateBuilderDependencies } from "./update-builder.js";
import { toRetryThought } from "./updates.js";
import type { SessionUpdate } from "./wire.js";

/** Delay before a retry after a store failure, in ms. */
const RETRY_DELAY_MS = 1_000;
/** Delay before a call is reported as running, in ms. A call with a result or question by then is not reported. */
const STARTED_DELAY_MS = 150;
/** Number of last messages that are searched for running calls when the history is skipped. */
const MAX_SEARCHED_MESSAGES = 20;

/** Dependencies of a `SessionWatch`. */
export interface SessionWatchDependencies extends UpdateBuilderDependencies {
  logger: Logger;
  openSession: OpenSession;
  client: AcpClient;
  /** Name of the client in stored answers. */
  clientName: string;
  /** Whether runs of the session may ask this client. */
  canAsk: (session: Pick<SessionState["session"], "mode">) => boolean;
  send(update: SessionUpdate): void;
  /** Resolves when the client reads the session's updates; undefined if the client reads now. */
  waitForReader(): Promise<void> | undefined;
  /** Resolves when the client can take more updates; undefined if the client can take more now. */
  waitUntilReady(): Promise<void> | undefined;
  /** Called with a session state that may differ from what the client knows. */
  onSession(session: SessionState["session"]): void;
  /** Called when the session was deleted. */
  onDeleted(): void;
  /** Aborts when the client disconnects. */
  closeSignal: AbortSignal;
}

/** The end of a run, to report when `isDue` returns true: after the run's last message was sent. */
interface PendingEnd {
  run: RunRecord;
  isDue: () => boolean;
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
  readonly #runUsage = new StoredRunUsage();
  readonly #endController = new AbortController();
  #cursor = "";
  #state: SessionState | undefined;
  #hasPlan = false;
  /** Whether the watch has received an event, so that it receives the session's questions too. */
  isFollowing = false;
  /** Whether updates wait because the client has no open stream or socket. */
  #isClientAway = false;
  /** Run id and time of the last reported retry of a model call. */
  #lastRetryKey = "";
  #pendingEnd: PendingEnd | undefined;
  #hasSkippedHistory = false;
  /** `seq` of the message that was unfinished when `skip` was called; undefined if there was none. */
  #unfinishedSeq: number | undefined;
  /** Id of the newest run that ended before the watch, or whose end was reported. */
  #endedRunId: string | undefined;
  #startTimer: NodeJS.Timeout | undefined;

  constructor(dependencies: SessionWatchDependencies) {
    this.#dependencies = dependencies;
    this.#agent = dependencies.agent;
    this.#updateBuilder = new UpdateBuilder(dependencies);
    this.#outputStream = new ToolOutputStream((update) => dependencies.send(update));
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
    if (state.run && !isActive(state.run)) this.#endedRunId = state.run.id;
  }

  async #handleEvent(event: WatchEvent, signal: AbortSignal): Promise<void> {
    const { openSession } = this.#dependencies;
    // Until a prompt has started, it is unknown whether the next messages belong to it.
    while (openSession.promptStart && !signal.aborted) await waitOrAbort(openSession.promptStart, signal);
    await this.#waitForClient(signal);
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
    this.#reportEnd();
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
    this.#runUsage.record(run);
    if (!isOwn && this.#dependencies.isEditor) this.#reportRetry(run);
    if (isActive(run)) return;
    if (isOwn) this.#endedRunId = run.id;
    else if (this.#endedRunId !== run.id && this.#pendingEnd?.run.id !== run.id) await this.#prepareEnd(run, isFirst);
  }

  /** The todo list as updates. A list that was always empty is not sent. */
  #toPlanUpdates(): SessionUpdate[] {
    const { plan = [] } = this.#state ?? {};
    const hasUpdate = plan.length > 0 || this.#hasPlan;
    this.#hasPlan = plan.length > 0;
    return hasUpdate ? this.#updateBuilder.toPlanUpdates(plan) : [];
  }

  /** Reports each retry of a model call once. */
  #reportRetry({ id, retry }: RunRecord): void {
    const retryKey = retry ? `${id} ${retry.nextAttemptAt}` : this.#lastRetryKey;
    if (retry && retryKey !== this.#lastRetryKey)
      this.#send([toRetryThought(retry.reason, Date.parse(retry.nextAttemptAt) - Date.now())]);
    this.#lastRetryKey = retryKey;
  }

  /**
   * Prepares the report of a run's end, which follows its last message. A run that ended before the watch began is not
   * reported.
   */
  async #prepareEnd(run: RunRecord, isFirst: boolean): Promise<void> {
    const after = Math.max(0, this.#updateBuilder.lastSeq - 1);
    const [lastMessage] = (await this.#agent.sessions.messages(this.#dependencies.openSession.root, { after })).slice(
      -1,
    );
    const isLastSent = () => !lastMessage || this.#updateBuilder.hasReported(lastMessage);
    if (isFirst && isLastSent()) this.#endedRunId = run.id;
    else this.#pendingEnd = { run, isDue: isLastSent };
  }

  #reportEnd(): void {
    if (!this.#pendingEnd?.isDue()) return;
    const { run } = this.#pendingEnd;
    this.#pendingEnd = undefined;
    this.#endedRunId = run.id;
    this.#send(this.#updateBuilder.failOpenCalls());
    const usage = this.#runUsage.toUpdate(run, this.#agent, this.#state?.session.usage, this.#dependencies.profile);
    if (usage) this.#send([usage]);
  }

  /** Whether the watch can send questions to the client now. The client's own prompt sends its own questions. */
  get #canAnswer(): boolean {
    const { openSession } = this.#dependencies;
    return (
      this.#canAsk() &&
      this.#pendingRequests.canAnswer &&
      !this.#isClientAway &&
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

  /** Resolves when the client can take more updates, or the signal aborts. */
  async #waitForClient(signal: AbortSignal): Promise<void> {
    const { waitForReader, waitUntilReady } = this.#dependencies;
    for (let readerWait = waitForReader(); readerWait && !signal.aborted; readerWait = waitForReader()) {
      this.#isClientAway = true;
      await waitOrAbort(readerWait, signal);
    }
    this.#isClientAway = false;
    for (let capacityWait = waitUntilReady(); capacityWait && !signal.aborted; capacityWait = waitUntilReady())
      await waitOrAbort(capacityWait, signal);
  }
}

function isActive({ state }: RunRecord): boolean {
  return state === "running" || state === "waiting";
}

/** Settles like the promise, or resolves when the signal aborts. */
async function waitOrAbort(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  let onAbort = (): void => undefined;
  const abort = new Promise<void>((resolve) => (onAbort = resolve));
  signal.addEventListener("abort", onAbort, { once: true });
  await Promise.race([promise, abort]).finally(() => signal.removeEventListener("abort", onAbort));
}
