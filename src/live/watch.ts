import type { Message } from "../ports/message.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { WatchEvent, WatchOptions } from "../ports/watch.js";
import { InputError, SessionNotFoundError } from "../ports/errors.js";
import { found } from "../sessions/sessions.js";
import { type Cursor, formatCursor, hashOf, hashOfCuts, isStored, parseCursor, type Proof } from "./cursor.js";
import type { Live } from "./live.js";
import type { Tail } from "./tail.js";

/**
 * What a session says, from a cursor on, and then as it comes. Rejects with `InputError` (a cursor that never was),
 * `SessionNotFoundError` or `StoreError`.
 */
export async function* watch(
  live: Live,
  store: SessionDriver,
  id: string,
  {
    after = "",
    lastSeen = "",
    behind = 0,
    follow = true,
    answers = false,
    signal = new AbortController().signal,
  }: WatchOptions,
): AsyncGenerator<WatchEvent, void, undefined> {
  const { chain } = await found(store, id);
  const cursor = after === "" ? lastSeen : after;
  const start =
    cursor === "" && behind > 0 ? await behindOf(store, chain.root, behind) : parseCursor(chain.root, cursor);
  // What was seen and never came to the disk, before a power cut, say.
  const isLost = !(await isStored(store, chain.root, start));
  if (isLost && after !== "") throw new InputError("after", "a cursor of what was said, got one past the end");
  const { tail, leave } = live.open(chain.root, store);
  const unwatch = follow ? tail.watched() : leave;
  const unattend = answers ? tail.attended(answers === true ? undefined : answers) : leave;
  try {
    yield* new Watch(tail, start, isLost).events(follow, signal);
  } finally {
    unattend();
    unwatch();
    leave();
  }
}

/** The place behind a message, or at the end, of a reader that was told nothing. */
async function behindOf(store: SessionDriver, rootId: string, seq: number): Promise<Cursor> {
  const head = await store.head(rootId, { messages: false });
  const [cuts, last] = [head?.original.cuts.length ?? 0, head?.newest.lastSeq ?? 0];
  return { cuts, seq: Math.min(seq, last), within: undefined, proof: undefined };
}

/** One watcher of a chain. */
class Watch {
  readonly #tail: Tail;
  #cursor: Cursor;
  /** Hashes of what was told of the growing message at the cursor; undefined until that was compared with what is stored. */
  #told: Record<Kind, number> | undefined;
  #state = "";
  readonly #progress = new Map<string, number>();
  #deleted = false;
  /** The reader has what the store has not: it begins anew. */
  #isLost: boolean;
  /** Of the cuts that the cursor counts. */
  #hashOfCuts = 0;

  constructor(tail: Tail, cursor: Cursor, isLost: boolean) {
    this.#tail = tail;
    this.#cursor = cursor;
    this.#isLost = isLost;
  }

  get #id(): string {
    return formatCursor(this.#tail.rootId, this.#cursor);
  }

  async *events(follow: boolean, signal: AbortSignal): AsyncGenerator<WatchEvent, void, undefined> {
    while (!signal.aborted) {
      const seen = this.#tail.version;
      yield* this.#news();
      if (this.#deleted || (!follow && (await this.#isUncut()))) return;
      if (follow) await this.#tail.next(seen, signal);
    }
  }

  /** Whether nothing was cut since the cursor. */
  async #isUncut(): Promise<boolean> {
    const state = await this.#tail.state();
    return state?.session.cuts.length === this.#cursor.cuts;
  }

  /** Everything that there is now. */
  async *#news(): AsyncGenerator<WatchEvent, void, undefined> {
    for (let more = true; more;) {
      const state = await this.#tail.state();
      if (!state) {
        this.#deleted = true;
        if (this.#state === "") throw new SessionNotFoundError(this.#tail.rootId);
        yield { type: "deleted" };
        return;
      }
      const text = JSON.stringify(state);
      if (text !== this.#state) yield { type: "state", state };
      this.#state = text;
      const { cuts } = state.session;
      const cut = this.#cutOf(cuts);
      const page = await this.#tail.from(Math.max(1, Math.min(this.#cursor.seq, cut ?? Infinity)));
      this.#hashOfCuts = hashOfCuts(cuts);
      if (cut !== undefined) yield this.#cut(cuts.length, cut, page.messages[0]);
      for (const message of page.messages) for (const event of this.#eventsOf(message)) yield event;
      more = page.more;
    }
    for (const { callId, text } of this.#tail.progress(this.#progress)) yield { type: "tool_progress", callId, text };
  }

  /** The `seq` after which all that the reader has is void; undefined where nothing is. */
  #cutOf(cuts: readonly number[]): number | undefined {
    const known = this.#cursor.cuts;
    if (this.#isLost || cuts.length < known) return 0;
    return cuts.length > known ? Math.min(...cuts.slice(known)) : undefined;
  }

  /** Everything that a revert or a restore touched since the cursor is void. `last`: the message at the cut, or a later one. */
  #cut(cuts: number, after: number, last: Message | undefined): WatchEvent {
    this.#isLost = false;
    const { seq, within, proof } = this.#cursor;
    if (seq <= after) this.#cursor = { cuts, seq, within, proof: proof && { ...proof, cuts: this.#hashOfCuts } };
    // Whoever was told what came behind it has all of it, whole or not.
    else if (last?.seq === after) this.#stand(last, cuts);
    else this.#cursor = { cuts, seq: after, within: undefined, proof: this.#proof("", 0) };
    return { type: "cut", cursor: this.#id, after };
  }

  /** What the reader lacks of a message. */
  #eventsOf(message: Message): WatchEvent[] {
    const { seq, within, proof } = this.#cursor;
    if (message.seq < seq) return [];
    if (message.seq > seq) return [this.#whole(message)];
    // One that was told as whole and is not has lost its end.
    if (!within) return message.finished || !proof || proof.message === 0 ? [] : [this.#whole(message)];
    const said = saidOf(message);
    // What this watch told is stored; the tail of the run is told so a moment later.
    if (this.#told && !message.finished && said.text.length + said.reasoning.length < within.text + within.reasoning)
      return [];
    if (!this.#fits(message, said)) return [this.#whole(message)];
    const events: WatchEvent[] = [];
    for (const kind of ["reasoning", "text"] as const) {
      const text = said[kind].slice(within[kind]);
      if (text === "") continue;
      this.#grow(message.id, kind, text);
      events.push({ type: "delta", cursor: this.#id, messageId: message.id, seq, kind, text });
    }
    if (message.finished) {
      this.#stand(message);
      events.push({ type: "message_end", cursor: this.#id, message: copyOf(message) });
    }
    return events;
  }

  /** Whether what was told of a growing message is how it begins. */
  #fits(message: Message, said: Record<Kind, string>): boolean {
    const { within = { text: 0, reasoning: 0 }, proof } = this.#cursor;
    if (said.text.length < within.text || said.reasoning.length < within.reasoning) return false;
    // While this watch goes on, a message only grows.
    if (this.#told && !message.finished) return true;
    const begin = {
      text: hashOf(said.text.slice(0, within.text)),
      reasoning: hashOf(said.reasoning.slice(0, within.reasoning)),
    };
    this.#told = begin;
    return !proof || proof.said === both(begin);
  }

  #grow(messageId: string, kind: Kind, text: string): void {
    const { within = { text: 0, reasoning: 0 } } = this.#cursor;
    const told = (this.#told ??= { text: hashOf(""), reasoning: hashOf("") });
    told[kind] = hashOf(text, told[kind]);
    this.#cursor = {
      ...this.#cursor,
      within: { ...within, [kind]: within[kind] + text.length },
      proof: this.#proof(messageId, both(told)),
    };
  }

  #whole(message: Message): WatchEvent {
    this.#stand(message);
    return { type: "message", cursor: this.#id, message: copyOf(message) };
  }

  /** The reader has all that there is of a message, and nothing behind it. */
  #stand({ id, seq, finished, ...message }: Message, cuts = this.#cursor.cuts): void {
    const said = finished ? undefined : saidOf(message);
    this.#told = said && { text: hashOf(said.text), reasoning: hashOf(said.reasoning) };
    const within = said && { text: said.text.length, reasoning: said.reasoning.length };
    this.#cursor = { cuts, seq, within, proof: this.#proof(id, this.#told ? both(this.#told) : 0) };
  }

  #proof(messageId: string, said: number): Proof {
    return { cuts: this.#hashOfCuts, message: messageId === "" ? 0 : hashOf(messageId), said };
  }
}

type Kind = "text" | "reasoning";

function saidOf(message: Pick<Message, "parts">): Record<Kind, string> {
  return { text: joined(message, "text"), reasoning: joined(message, "reasoning") };
}

function joined({ parts }: Pick<Message, "parts">, kind: Kind): string {
  return parts.map((part) => (part.type === kind ? part.text : "")).join("");
}

/** One hash of two. */
function both({ text, reasoning }: Record<Kind, number>): number {
  return (text ^ Math.imul(reasoning, 31)) >>> 0;
}

/** What the tail has goes on growing, and what is told is the reader's own. */
function copyOf(message: Message): Message {
  return { ...message, parts: message.parts.map((part) => ({ ...part })) };
}
