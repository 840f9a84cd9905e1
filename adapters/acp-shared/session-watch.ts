import { setTimeout as sleep } from "node:timers/promises";
import { hasCode, type Agent, type Logger, type RunRecord, type SessionState, type WatchEvent } from "gantry";
import { PendingRequests } from "./pending-requests.js";
import type { AcpClient } from "./client.js";
import type { OpenSession } from "./open-session.js";
import { ToolOutputStream } from "./tool-output-stream.js";
import { StoredRunUsage } from "./run-usage.js";
import { UpdateSender, type TellerParts } from "./update-sender.js";
import { retryThought } from "./updates.js";
import type { SessionUpdate } from "./wire.js";

/** Delay before a retry after a store failure, in ms. */
const AGAIN_MS = 1_000;
/** A call that has neither a result nor a question after this time, in ms, is reported as running. */
const BEGUN_MS = 150;
/** Number of last messages that are searched for running calls when the history is skipped. */
const LAST = 20;

/** Dependencies of a `SessionWatch`. */
export interface WatchingParts extends TellerParts {
  logger: Logger;
  open: OpenSession;
  client: AcpClient;
  /** Name of the client in stored answers. */
  askedAt: string;
  /** Whether runs of the session may ask this client. */
  mayAsk: (session: Pick<SessionState["session"], "mode">) => boolean;
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
interface Ending {
  run: RunRecord;
  isTold: () => boolean;
}

/**
 * Sends the events of a session that other clients and processes cause. Starts after the last known message, sends each
 * message once, and leaves out what this client's own prompts send.
 */
export class SessionWatch {
  readonly #parts: WatchingParts;
  readonly #agent: Agent;
  readonly #teller: UpdateSender;
  readonly #printed: ToolOutputStream;
  readonly #asked: PendingRequests;
  readonly #spent = new StoredRunUsage();
  readonly #end = new AbortController();
  #cursor = "";
  #state: SessionState | undefined;
  #hasPlan = false;
  /** Whether updates are waiting because the client does not read. */
  #isAway = false;
  /** The last reported retry of a model call, as run id and time. */
  #waited = "";
  #ending: Ending | undefined;
  #hasSkipped = false;
  /** `seq` of the message that was still growing when `skip` was called. */
  #growing: number | undefined;
  /** The newest run whose end was reported, or came before the watch. */
  #over: string | undefined;
  #beginning: NodeJS.Timeout | undefined;

  constructor(parts: WatchingParts) {
    this.#parts = parts;
    this.#agent = parts.agent;
    this.#teller = new UpdateSender(parts);
    this.#printed = new ToolOutputStream((update) => parts.send(update));
    this.#asked = new PendingRequests({ ...parts, teller: this.#teller, show: (updates) => this.#send(updates) });
    const stop = () => this.end();
    parts.closing.addEventListener("abort", stop, { once: true });
    this.#end.signal.addEventListener("abort", () => parts.closing.removeEventListener("abort", stop));
    if (parts.closing.aborted) this.end();
  }

  /** Ends the watch; nothing more is sent. */
  end(): void {
    this.#end.abort();
    clearTimeout(this.#beginning);
    this.#printed.close();
    this.#asked.close();
  }

  /** The history as updates, message by message; `follow` continues after it. */
  async *replay(signal: AbortSignal): AsyncGenerator<SessionUpdate[]> {
    yield* this.#past(signal);
    const teller = this.#teller;
    if (teller.openCalls.length > 0) {
      const { root } = this.#parts.open;
      if (await this.#agent.sessions.isRunning(root)) yield this.#begun();
      else {
        // The run may have ended after the last message was read.
        yield* this.#past(signal);
        // Calls without a result after a crash: otherwise the client would show them as running permanently.
        yield teller.failed();
      }
    }
    yield this.#planned();
  }

  /** Skips the messages so far; `follow` continues after them. */
  async skip(): Promise<void> {
    const { open } = this.#parts;
    const before = Number.MAX_SAFE_INTEGER;
    const last = await this.#agent.sessions.messages(open.root, { before, limit: LAST });
    this.#teller.prime(last);
    open.since = this.#teller.seq;
    this.#hasSkipped = true;
    const [growing] = last.slice(-1);
    if (growing && !growing.finished) this.#growing = growing.seq;
  }

  /** Sends new events until the end. Never rejects. */
  follow(): Promise<void> {
    return this.#follow(this.#end.signal);
  }

  async *#past(signal: AbortSignal): AsyncGenerator<SessionUpdate[]> {
    const { root } = this.#parts.open;
    const options = { lastSeen: this.#cursor, follow: false, signal };
    for await (const event of this.#agent.sessions.watch(root, options)) {
      if ("cursor" in event) this.#cursor = event.cursor;
      if (event.type === "state") this.#seen(event.state);
      if (event.type === "message" || event.type === "delta" || event.type === "message_end")
        yield this.#teller.updatesOf(event, true);
    }
    signal.throwIfAborted();
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { logger, open } = this.#parts;
    while (!signal.aborted) {
      try {
        if (this.#cursor === "") await this.#catchUp();
        const behind = this.#teller.seq;
        const answers = () => this.#answers;
        for await (const event of this.#agent.sessions.watch(open.root, {
          lastSeen: this.#cursor,
          afterSeq: behind,
          canAnswer: answers,
          signal,
        }))
          await this.#take(event, signal);
        return;
      } catch (error) {
        if (signal.aborted || hasCode(error, "session_not_found")) return;
        logger.warn("a session could not be watched; trying again", { session: open.root, error });
        await sleep(AGAIN_MS, undefined, { signal, ref: false }).catch(() => undefined);
      }
    }
  }

  /** Skips earlier messages that the client knows already, or did not request. */
  async #catchUp(): Promise<void> {
    const { open } = this.#parts;
    if (open.since === undefined) await this.skip();
    else if (!this.#hasSkipped) this.#teller.skip(open.pastOwn(open.since));
    // The last message may still be growing.
    if (this.#growing !== undefined) await this.#grow(this.#growing);
  }

  /** Sends the rest of a growing message. */
  async #grow(seq: number): Promise<void> {
    const options = { afterSeq: seq - 1, follow: false };
    for await (const event of this.#agent.sessions.watch(this.#parts.open.root, options)) {
      if ("cursor" in event) this.#cursor = event.cursor;
      if (event.type === "state") this.#seen(event.state);
      if (event.type === "message" || event.type === "delta" || event.type === "message_end")
        this.#send(this.#teller.updatesOf(event));
    }
  }

  /** Sets the initial state, before updates are sent. */
  #seen(state: SessionState): void {
    this.#state = state;
    if (state.run && !isOpen(state.run)) this.#over = state.run.id;
  }

  async #take(event: WatchEvent, signal: AbortSignal): Promise<void> {
    const { open } = this.#parts;
    // Until a prompt has started, it is unknown whether the next messages belong to it.
    while (open.starting && !signal.aborted) await orAborted(open.starting, signal);
    await this.#room(signal);
    if (signal.aborted) return;
    if ("cursor" in event) this.#cursor = event.cursor;
    switch (event.type) {
      case "state":
        await this.#changed(event.state);
        break;
      case "tool_progress":
        if (this.#parts.editor && this.#teller.knows(event.callId)) {
          this.#send(this.#teller.begun([event.callId]));
          this.#printed.add(event.callId, event.text);
        }
        break;
      case "rewind":
        if (this.#teller.cut(event.after)) this.#parts.logger.debug("a session was taken back", { session: open.root });
        break;
      case "deleted":
        this.#parts.deleted();
        break;
      default:
        this.#told(event);
    }
    this.#asked.put();
    this.#finish();
  }

  #told(event: Extract<WatchEvent, { type: "message" | "delta" | "message_end" }>): void {
    const { open } = this.#parts;
    const seq = event.type === "delta" ? event.seq : event.message.seq;
    if (open.hasOwn(seq)) {
      this.#teller.skip(Math.max(seq, open.pastOwn(seq)));
      return;
    }
    if (event.type === "message") this.#printed.end(event.message.toolCallId);
    this.#send(this.#teller.updatesOf(event));
    this.#begin();
  }

  async #changed(state: SessionState): Promise<void> {
    const { open, changed } = this.#parts;
    const { run, session } = state;
    const isFirst = this.#state === undefined;
    this.#state = state;
    changed(session);
    this.#asked.changed(state.asks, this.#mayAsk());
    if (state.asks.length === 0) this.#begin();
    const isOwn = run !== null && open.isOwn(run.id);
    // The client already has the plans of its own prompt.
    const planned = this.#planned();
    if (!isOwn) this.#send(planned);
    if (!run) return;
    this.#spent.seen(run);
    if (!isOwn && this.#parts.editor) this.#retried(run);
    if (isOpen(run)) return;
    if (isOwn) this.#over = run.id;
    else if (this.#over !== run.id && this.#ending?.run.id !== run.id) await this.#ends(run, isFirst);
  }

  /** A list that was always empty is not sent. */
  #planned(): SessionUpdate[] {
    const { plan = [] } = this.#state ?? {};
    const isThere = plan.length > 0 || this.#hasPlan;
    this.#hasPlan = plan.length > 0;
    return isThere ? this.#teller.plan(plan) : [];
  }

  /** Reports each wait for a provider once. */
  #retried({ id, retry }: RunRecord): void {
    const wait = retry ? `${id} ${retry.nextAttemptAt}` : this.#waited;
    if (retry && wait !== this.#waited)
      this.#send([retryThought(retry.reason, Date.parse(retry.nextAttemptAt) - Date.now())]);
    this.#waited = wait;
  }

  /**
   * Prepares the report of a run's end, which follows its last message. A run that ended before the watch began is not
   * reported.
   */
  async #ends(run: RunRecord, isFirst: boolean): Promise<void> {
    const after = Math.max(0, this.#teller.seq - 1);
    const [last] = (await this.#agent.sessions.messages(this.#parts.open.root, { after })).slice(-1);
    const isTold = () => !last || this.#teller.has(last);
    if (isFirst && isTold()) this.#over = run.id;
    else this.#ending = { run, isTold };
  }

  #finish(): void {
    if (!this.#ending?.isTold()) return;
    const { run } = this.#ending;
    this.#ending = undefined;
    this.#over = run.id;
    this.#send(this.#teller.failed());
    const usage = this.#spent.update(run, this.#agent, this.#state?.session.usage, this.#parts.profile);
    if (usage) this.#send([usage]);
  }

  /** Whether the client answers questions now. The client's own prompt sends its questions itself. */
  get #answers(): boolean {
    const { open } = this.#parts;
    return this.#mayAsk() && this.#asked.answers && !this.#isAway && !open.starting && !open.own?.asks;
  }

  #mayAsk(): boolean {
    return this.#state !== undefined && this.#parts.mayAsk(this.#state.session);
  }

  /** Reports open calls as running after a delay, unless they wait for an answer or have ended. */
  #begin(): void {
    if (!this.#parts.editor || this.#beginning !== undefined || this.#teller.openCalls.length === 0) return;
    this.#beginning = setTimeout(() => {
      this.#beginning = undefined;
      if (!this.#end.signal.aborted) this.#send(this.#begun());
    }, BEGUN_MS).unref();
  }

  /** Reports the open calls without a question as running. */
  #begun(): SessionUpdate[] {
    const asked = this.#state?.asks.map(({ callId }) => callId) ?? [];
    return this.#teller.begun(this.#teller.openCalls.filter((callId) => !asked.includes(callId)));
  }

  #send(updates: readonly SessionUpdate[]): void {
    if (!this.#end.signal.aborted) for (const update of updates) this.#parts.send(update);
  }

  /** Resolves when the client can take more, or the signal aborts. */
  async #room(signal: AbortSignal): Promise<void> {
    const { reader, ready } = this.#parts;
    for (let back = reader(); back && !signal.aborted; back = reader()) {
      this.#isAway = true;
      await orAborted(back, signal);
    }
    this.#isAway = false;
    for (let room = ready(); room && !signal.aborted; room = ready()) await orAborted(room, signal);
  }
}

function isOpen({ state }: RunRecord): boolean {
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
