import { setTimeout as sleep } from "node:timers/promises";
import { hasCode, type Agent, type Logger, type RunRecord, type SessionState, type WatchEvent } from "gantry";
import { Asked } from "./pending-requests.js";
import type { AcpClient } from "./client.js";
import type { OpenSession } from "./open-session.js";
import { Printed } from "./tool-output-stream.js";
import { RunSpent } from "./run-usage.js";
import { Teller, type TellerParts } from "./update-sender.js";
import { retryThought } from "./updates.js";
import type { SessionUpdate } from "./wire.js";

/** After a store that failed it is looked again so much later, in ms. */
const AGAIN_MS = 1_000;
/** A call that has neither a result nor a question after so long, in ms, is told to run. */
const BEGUN_MS = 150;
/** Messages that may hold a call which still runs, where the conversation is not told. */
const LAST = 20;

/** What a watch of a session is made of. */
export interface WatchingParts extends TellerParts {
  logger: Logger;
  open: OpenSession;
  client: AcpClient;
  /** Names the client in what is stored of its answers. */
  askedAt: string;
  /** Whether a session asks this client. */
  mayAsk: (session: Pick<SessionState["session"], "mode">) => boolean;
  send(update: SessionUpdate): void;
  /** Resolves when the client reads what the session tells; undefined when it does now. */
  reader(): Promise<void> | undefined;
  /** Resolves when the client takes more; undefined when it does now. */
  ready(): Promise<void> | undefined;
  /** The session is another than the client was told. */
  changed(session: SessionState["session"]): void;
  /** There is no such session any more. */
  deleted(): void;
  /** Aborted when the client is gone. */
  closing: AbortSignal;
}

/** What a run left to be told when all its messages are. */
interface Ending {
  run: RunRecord;
  isTold: () => boolean;
}

/**
 * What others do in a session that a client has open: from what it was told last, each message once, without what its own
 * prompts tell. Whoever prompts, and in which process, makes no difference.
 */
export class Watching {
  readonly #parts: WatchingParts;
  readonly #agent: Agent;
  readonly #teller: Teller;
  readonly #printed: Printed;
  readonly #asked: Asked;
  readonly #spent = new RunSpent();
  readonly #end = new AbortController();
  #cursor = "";
  #state: SessionState | undefined;
  #hasPlan = false;
  /** There is something to tell, and nobody reads. */
  #isAway = false;
  /** The wait for a provider that was told last. */
  #waited = "";
  #ending: Ending | undefined;
  #hasSkipped = false;
  /** The message that had not come to its end when all was skipped. */
  #growing: number | undefined;
  /** The newest run of which the end is told, or was there before. */
  #over: string | undefined;
  #beginning: NodeJS.Timeout | undefined;

  constructor(parts: WatchingParts) {
    this.#parts = parts;
    this.#agent = parts.agent;
    this.#teller = new Teller(parts);
    this.#printed = new Printed((update) => parts.send(update));
    this.#asked = new Asked({ ...parts, teller: this.#teller, show: (updates) => this.#send(updates) });
    const stop = () => this.end();
    parts.closing.addEventListener("abort", stop, { once: true });
    this.#end.signal.addEventListener("abort", () => parts.closing.removeEventListener("abort", stop));
    if (parts.closing.aborted) this.end();
  }

  /** Nothing more is told. */
  end(): void {
    this.#end.abort();
    clearTimeout(this.#beginning);
    this.#printed.close();
    this.#asked.close();
  }

  /** All that was said, message by message; `follow` goes on from there. */
  async *replay(signal: AbortSignal): AsyncGenerator<SessionUpdate[]> {
    yield* this.#past(signal);
    const teller = this.#teller;
    if (teller.openCalls.length > 0) {
      const { root } = this.#parts.open;
      if (await this.#agent.sessions.isRunning(root)) yield this.#begun();
      else {
        // The run may have ended between the last message and the question.
        yield* this.#past(signal);
        // A crash left these without a result; a client would show them as running for ever.
        yield teller.failed();
      }
    }
    yield this.#planned();
  }

  /** The client knows what was said until now, or wants none of it: `follow` goes on behind that. */
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

  /** Tell what comes from now on, until the end. Never rejects. */
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
          behind,
          answers,
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

  /** What was said before that the client needs no telling of: it knows that already, or asked for no history. */
  async #catchUp(): Promise<void> {
    const { open } = this.#parts;
    if (open.since === undefined) await this.skip();
    else if (!this.#hasSkipped) this.#teller.skip(open.pastOwn(open.since));
    // The last one may grow on.
    if (this.#growing !== undefined) await this.#grow(this.#growing);
  }

  /** Go on within a message. */
  async #grow(seq: number): Promise<void> {
    const options = { behind: seq - 1, follow: false };
    for await (const event of this.#agent.sessions.watch(this.#parts.open.root, options)) {
      if ("cursor" in event) this.#cursor = event.cursor;
      if (event.type === "state") this.#seen(event.state);
      if (event.type === "message" || event.type === "delta" || event.type === "message_end")
        this.#send(this.#teller.updatesOf(event));
    }
  }

  /** How the session stands before anything of it is told. */
  #seen(state: SessionState): void {
    this.#state = state;
    if (state.run && !isOpen(state.run)) this.#over = state.run.id;
  }

  async #take(event: WatchEvent, signal: AbortSignal): Promise<void> {
    const { open } = this.#parts;
    // Whose messages come next is not known before.
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
      case "cut":
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
    // Those of its own prompt the client has.
    const planned = this.#planned();
    if (!isOwn) this.#send(planned);
    if (!run) return;
    this.#spent.seen(run);
    if (!isOwn && this.#parts.editor) this.#retried(run);
    if (isOpen(run)) return;
    if (isOwn) this.#over = run.id;
    else if (this.#over !== run.id && this.#ending?.run.id !== run.id) await this.#ends(run, isFirst);
  }

  /** A list that never had anything in it is none. */
  #planned(): SessionUpdate[] {
    const { plan = [] } = this.#state ?? {};
    const isThere = plan.length > 0 || this.#hasPlan;
    this.#hasPlan = plan.length > 0;
    return isThere ? this.#teller.plan(plan) : [];
  }

  /** Each wait for a provider is told once. */
  #retried({ id, retry }: RunRecord): void {
    const wait = retry ? `${id} ${retry.at}` : this.#waited;
    if (retry && wait !== this.#waited) this.#send([retryThought(retry.reason, Date.parse(retry.at) - Date.now())]);
    this.#waited = wait;
  }

  /** What there is to say of a run's end comes behind its last message. One that had ended before the watch began is none of its business. */
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

  /** Whether the client's person answers what a run asks now. What its own prompt asks comes by that. */
  get #answers(): boolean {
    const { open } = this.#parts;
    return this.#mayAsk() && this.#asked.answers && !this.#isAway && !open.starting && !open.own?.asks;
  }

  #mayAsk(): boolean {
    return this.#state !== undefined && this.#parts.mayAsk(this.#state.session);
  }

  /** A while after a call was told, or answered, it runs, unless it waits for an answer or is over. */
  #begin(): void {
    if (!this.#parts.editor || this.#beginning !== undefined || this.#teller.openCalls.length === 0) return;
    this.#beginning = setTimeout(() => {
      this.#beginning = undefined;
      if (!this.#end.signal.aborted) this.#send(this.#begun());
    }, BEGUN_MS).unref();
  }

  /** Calls that run. */
  #begun(): SessionUpdate[] {
    const asked = this.#state?.asks.map(({ callId }) => callId) ?? [];
    return this.#teller.begun(this.#teller.openCalls.filter((callId) => !asked.includes(callId)));
  }

  #send(updates: readonly SessionUpdate[]): void {
    if (!this.#end.signal.aborted) for (const update of updates) this.#parts.send(update);
  }

  /** Resolves when the client takes more, or the signal aborts. */
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
