import { setTimeout as sleep } from "node:timers/promises";
import { hasCode, type Agent, type Logger, type RunRecord, type SessionState, type WatchEvent } from "gantry";
import { PendingRequests } from "./pending-requests.js";
import type { AcpClient } from "./client.js";
import type { OpenSession } from "./open-session.js";
import { ToolOutputStream } from "./tool-output-stream.js";
import { StoredRunUsage } from "./run-usage.js";
import { UpdateSender, type UpdateSenderParts } from "./update-sender.js";
import { retryThought } from "./updates.js";
import type { SessionUpdate } from "./wire.js";

/** Delay before a retry after a store failure, in ms. */
const RETRY_DELAY_MS = 1_000;
/** A call that has neither a result nor a question after this time, in ms, is reported as running. */
const ASSUME_RUNNING_MS = 150;
/** Number of last messages that are searched for running calls when the history is skipped. */
const MAX_PRIMED_MESSAGES = 20;

/** Dependencies of a `SessionWatch`. */
export interface SessionWatchParts extends UpdateSenderParts {
  logger: Logger;
  open: OpenSession;
  client: AcpClient;
  /** Name of the client in stored answers. */
  clientName: string;
  /** Whether runs of the session may ask this client. */
  canAsk: (session: Pick<SessionState["session"], "mode">) => boolean;
  send(update: SessionUpdate): void;
  /** Resolves when the client reads the session's updates; undefined if it reads now. */
  reader(): Promise<void> | undefined;
  /** Resolves when the client can take more; undefined if it can now. */
  ready(): Promise<void> | undefined;
  /** Called with a session state that may differ from what the client knows. */
  changed(session: SessionState["session"]): void;
  /** Called when the session was deleted. */
  deleted(): void;
  /** Aborts when the client disconnects. */
  closing: AbortSignal;
}

/** The end of a run that is reported after its last message. */
interface PendingEnd {
  run: RunRecord;
  isReported: () => boolean;
}

/**
 * Sends the events of a session that other clients and processes cause. Starts after the last known message, sends each
 * message once, and leaves out what this client's own prompts send.
 */
export class SessionWatch {
  readonly #parts: SessionWatchParts;
  readonly #agent: Agent;
  readonly #updateSender: UpdateSender;
  readonly #outputStream: ToolOutputStream;
  readonly #pendingRequests: PendingRequests;
  readonly #runUsage = new StoredRunUsage();
  readonly #end = new AbortController();
  #cursor = "";
  #state: SessionState | undefined;
  #hasPlan = false;
  /** Whether updates are waiting because the client does not read. */
  #isClientAway = false;
  /** The last reported retry of a model call, as run id and time. */
  #lastWait = "";
  #ending: PendingEnd | undefined;
  #hasSkipped = false;
  /** `seq` of the message that was still growing when `skip` was called. */
  #growingSeq: number | undefined;
  /** The newest run whose end was reported, or came before the watch. */
  #endedRunId: string | undefined;
  #startTimer: NodeJS.Timeout | undefined;

  constructor(parts: SessionWatchParts) {
    this.#parts = parts;
    this.#agent = parts.agent;
    this.#updateSender = new UpdateSender(parts);
    this.#outputStream = new ToolOutputStream((update) => parts.send(update));
    this.#pendingRequests = new PendingRequests({
      ...parts,
      updateSender: this.#updateSender,
      show: (updates) => this.#send(updates),
    });
    const stop = () => this.end();
    parts.closing.addEventListener("abort", stop, { once: true });
    this.#end.signal.addEventListener("abort", () => parts.closing.removeEventListener("abort", stop));
    if (parts.closing.aborted) this.end();
  }

  /** Ends the watch; nothing more is sent. */
  end(): void {
    this.#end.abort();
    clearTimeout(this.#startTimer);
    this.#outputStream.close();
    this.#pendingRequests.close();
  }

  /** The history as updates, message by message; `follow` continues after it. */
  async *replay(signal: AbortSignal): AsyncGenerator<SessionUpdate[]> {
    yield* this.#storedUpdates(signal);
    const teller = this.#updateSender;
    if (teller.openCalls.length > 0) {
      const { root } = this.#parts.open;
      if (await this.#agent.sessions.isRunning(root)) yield this.#startedUpdates();
      else {
        // The run may have ended after the last message was read.
        yield* this.#storedUpdates(signal);
        // Calls without a result after a crash: otherwise the client would show them as running permanently.
        yield teller.failedUpdates();
      }
    }
    yield this.#planUpdates();
  }

  /** Skips the messages so far; `follow` continues after them. */
  async skip(): Promise<void> {
    const { open } = this.#parts;
    const before = Number.MAX_SAFE_INTEGER;
    const last = await this.#agent.sessions.messages(open.root, { before, limit: MAX_PRIMED_MESSAGES });
    this.#updateSender.prime(last);
    open.reportedSeq = this.#updateSender.seq;
    this.#hasSkipped = true;
    const [growing] = last.slice(-1);
    if (growing && !growing.finished) this.#growingSeq = growing.seq;
  }

  /** Sends new events until the end. Never rejects. */
  follow(): Promise<void> {
    return this.#follow(this.#end.signal);
  }

  async *#storedUpdates(signal: AbortSignal): AsyncGenerator<SessionUpdate[]> {
    const { root } = this.#parts.open;
    const options = { lastSeen: this.#cursor, follow: false, signal };
    for await (const event of this.#agent.sessions.watch(root, options)) {
      if ("cursor" in event) this.#cursor = event.cursor;
      if (event.type === "state") this.#setState(event.state);
      if (event.type === "message" || event.type === "delta" || event.type === "message_end")
        yield this.#updateSender.updatesOf(event, true);
    }
    signal.throwIfAborted();
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { logger, open } = this.#parts;
    while (!signal.aborted) {
      try {
        if (this.#cursor === "") await this.#catchUp();
        const behind = this.#updateSender.seq;
        const answers = () => this.#canAnswer;
        for await (const event of this.#agent.sessions.watch(open.root, {
          lastSeen: this.#cursor,
          afterSeq: behind,
          canAnswer: answers,
          signal,
        }))
          await this.#handleEvent(event, signal);
        return;
      } catch (error) {
        if (signal.aborted || hasCode(error, "session_not_found")) return;
        logger.warn("session watch failed; retrying", { session: open.root, error });
        await sleep(RETRY_DELAY_MS, undefined, { signal, ref: false }).catch(() => undefined);
      }
    }
  }

  /** Skips earlier messages that the client knows already, or did not request. */
  async #catchUp(): Promise<void> {
    const { open } = this.#parts;
    if (open.reportedSeq === undefined) await this.skip();
    else if (!this.#hasSkipped) this.#updateSender.skip(open.skipOwn(open.reportedSeq));
    // The last message may still be growing.
    if (this.#growingSeq !== undefined) await this.#grow(this.#growingSeq);
  }

  /** Sends the rest of a growing message. */
  async #grow(seq: number): Promise<void> {
    const options = { afterSeq: seq - 1, follow: false };
    for await (const event of this.#agent.sessions.watch(this.#parts.open.root, options)) {
      if ("cursor" in event) this.#cursor = event.cursor;
      if (event.type === "state") this.#setState(event.state);
      if (event.type === "message" || event.type === "delta" || event.type === "message_end")
        this.#send(this.#updateSender.updatesOf(event));
    }
  }

  /** Sets the initial state, before updates are sent. */
  #setState(state: SessionState): void {
    this.#state = state;
    if (state.run && !isActive(state.run)) this.#endedRunId = state.run.id;
  }

  async #handleEvent(event: WatchEvent, signal: AbortSignal): Promise<void> {
    const { open } = this.#parts;
    // Until a prompt has started, it is unknown whether the next messages belong to it.
    while (open.starting && !signal.aborted) await orAborted(open.starting, signal);
    await this.#clientReady(signal);
    if (signal.aborted) return;
    if ("cursor" in event) this.#cursor = event.cursor;
    switch (event.type) {
      case "state":
        await this.#handleState(event.state);
        break;
      case "tool_progress":
        if (this.#parts.editor && this.#updateSender.hasOpenCall(event.callId)) {
          this.#send(this.#updateSender.startedUpdates([event.callId]));
          this.#outputStream.add(event.callId, event.text);
        }
        break;
      case "rewind":
        if (this.#updateSender.rewind(event.after)) this.#parts.logger.debug("session rewound", { session: open.root });
        break;
      case "deleted":
        this.#parts.deleted();
        break;
      default:
        this.#handleMessage(event);
    }
    this.#pendingRequests.put();
    this.#reportEnd();
  }

  #handleMessage(event: Extract<WatchEvent, { type: "message" | "delta" | "message_end" }>): void {
    const { open } = this.#parts;
    const seq = event.type === "delta" ? event.seq : event.message.seq;
    if (open.hasOwn(seq)) {
      this.#updateSender.skip(Math.max(seq, open.skipOwn(seq)));
      return;
    }
    if (event.type === "message") this.#outputStream.end(event.message.toolCallId);
    this.#send(this.#updateSender.updatesOf(event));
    this.#scheduleStarted();
  }

  async #handleState(state: SessionState): Promise<void> {
    const { open, changed } = this.#parts;
    const { run, session } = state;
    const isFirst = this.#state === undefined;
    this.#state = state;
    changed(session);
    this.#pendingRequests.changed(state.asks, this.#canAsk());
    if (state.asks.length === 0) this.#scheduleStarted();
    const isOwn = run !== null && open.isOwn(run.id);
    // The client already has the plans of its own prompt.
    const planned = this.#planUpdates();
    if (!isOwn) this.#send(planned);
    if (!run) return;
    this.#runUsage.record(run);
    if (!isOwn && this.#parts.editor) this.#reportRetry(run);
    if (isActive(run)) return;
    if (isOwn) this.#endedRunId = run.id;
    else if (this.#endedRunId !== run.id && this.#ending?.run.id !== run.id) await this.#prepareEnd(run, isFirst);
  }

  /** A list that was always empty is not sent. */
  #planUpdates(): SessionUpdate[] {
    const { plan = [] } = this.#state ?? {};
    const isThere = plan.length > 0 || this.#hasPlan;
    this.#hasPlan = plan.length > 0;
    return isThere ? this.#updateSender.plan(plan) : [];
  }

  /** Reports each wait for a provider once. */
  #reportRetry({ id, retry }: RunRecord): void {
    const wait = retry ? `${id} ${retry.nextAttemptAt}` : this.#lastWait;
    if (retry && wait !== this.#lastWait)
      this.#send([retryThought(retry.reason, Date.parse(retry.nextAttemptAt) - Date.now())]);
    this.#lastWait = wait;
  }

  /**
   * Prepares the report of a run's end, which follows its last message. A run that ended before the watch began is not
   * reported.
   */
  async #prepareEnd(run: RunRecord, isFirst: boolean): Promise<void> {
    const after = Math.max(0, this.#updateSender.seq - 1);
    const [last] = (await this.#agent.sessions.messages(this.#parts.open.root, { after })).slice(-1);
    const isTold = () => !last || this.#updateSender.has(last);
    if (isFirst && isTold()) this.#endedRunId = run.id;
    else this.#ending = { run, isReported: isTold };
  }

  #reportEnd(): void {
    if (!this.#ending?.isReported()) return;
    const { run } = this.#ending;
    this.#ending = undefined;
    this.#endedRunId = run.id;
    this.#send(this.#updateSender.failedUpdates());
    const usage = this.#runUsage.update(run, this.#agent, this.#state?.session.usage, this.#parts.profile);
    if (usage) this.#send([usage]);
  }

  /** Whether the client answers questions now. The client's own prompt sends its questions itself. */
  get #canAnswer(): boolean {
    const { open } = this.#parts;
    return (
      this.#canAsk() &&
      this.#pendingRequests.canAnswer &&
      !this.#isClientAway &&
      !open.starting &&
      !open.ownRun?.asksClient
    );
  }

  #canAsk(): boolean {
    return this.#state !== undefined && this.#parts.canAsk(this.#state.session);
  }

  /** Reports open calls as running after a delay, unless they wait for an answer or have ended. */
  #scheduleStarted(): void {
    if (!this.#parts.editor || this.#startTimer !== undefined || this.#updateSender.openCalls.length === 0) return;
    this.#startTimer = setTimeout(() => {
      this.#startTimer = undefined;
      if (!this.#end.signal.aborted) this.#send(this.#startedUpdates());
    }, ASSUME_RUNNING_MS).unref();
  }

  /** Reports the open calls without a question as running. */
  #startedUpdates(): SessionUpdate[] {
    const askedCallIds = this.#state?.asks.map(({ callId }) => callId) ?? [];
    return this.#updateSender.startedUpdates(
      this.#updateSender.openCalls.filter((callId) => !askedCallIds.includes(callId)),
    );
  }

  #send(updates: readonly SessionUpdate[]): void {
    if (!this.#end.signal.aborted) for (const update of updates) this.#parts.send(update);
  }

  /** Resolves when the client can take more, or the signal aborts. */
  async #clientReady(signal: AbortSignal): Promise<void> {
    const { reader, ready } = this.#parts;
    for (let back = reader(); back && !signal.aborted; back = reader()) {
      this.#isClientAway = true;
      await orAborted(back, signal);
    }
    this.#isClientAway = false;
    for (let room = ready(); room && !signal.aborted; room = ready()) await orAborted(room, signal);
  }
}

function isActive({ state }: RunRecord): boolean {
  return state === "running" || state === "waiting";
}

/** Resolves with the promise, or when the signal aborts. */
async function orAborted(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  let stop = (): void => undefined;
  const aborted = new Promise<void>((resolve) => (stop = resolve));
  signal.addEventListener("abort", stop, { once: true });
  await Promise.race([promise, aborted]).finally(() => signal.removeEventListener("abort", stop));
}
