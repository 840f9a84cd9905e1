import type { Message } from "../ports/message.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { WatchEvent, WatchOptions } from "../ports/watch.js";
import { InputError, SessionNotFoundError } from "../ports/errors.js";
import { found } from "../sessions/sessions.js";
import { type Cursor, formatCursor, parseCursor } from "./cursor.js";
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
  const end = await endOf(store, chain.root);
  const cursor = after === "" ? lastSeen : after;
  const start =
    cursor === "" && behind > 0
      ? { cuts: end.cuts, seq: Math.min(behind, end.seq), within: undefined }
      : parseCursor(chain.root, cursor);
  // What was seen and never came to the disk, before a power cut, say.
  const isLost = start.seq > end.seq || start.cuts > end.cuts;
  if (isLost && after !== "") throw new InputError("after", "a cursor of what was said, got one past the end");
  const { tail, leave } = live.open(chain.root, store);
  const unwatch = follow ? tail.watched() : leave;
  const unattend = answers ? tail.attended() : leave;
  try {
    yield* new Watch(tail, start, isLost).events(follow, signal);
  } finally {
    unattend();
    unwatch();
    leave();
  }
}

/** How far a chain has come. */
async function endOf(store: SessionDriver, rootId: string): Promise<{ seq: number; cuts: number }> {
  const head = await store.head(rootId, { messages: false });
  return { seq: head?.newest.lastSeq ?? 0, cuts: head?.original.cuts.length ?? 0 };
}

/** One watcher of a chain. */
class Watch {
  readonly #tail: Tail;
  #cursor: Cursor;
  /** Of the growing message at the cursor what was told, as long as this watch has told it from its begin. */
  #told: { text: string; reasoning: string } | undefined;
  #state = "";
  readonly #progress = new Map<string, number>();
  #deleted = false;
  /** The reader has what the store has not: it begins anew. */
  #isLost: boolean;

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
      if (this.#deleted || (!follow && this.#tail.version === seen)) return;
      await this.#tail.next(seen, signal);
    }
  }

  /** Everything that there is now. */
  async *#news(): AsyncGenerator<WatchEvent, void, undefined> {
    for (let more = true; more;) {
      const now = await this.#tail.state();
      if (!now) {
        this.#deleted = true;
        if (this.#state === "") throw new SessionNotFoundError(this.#tail.rootId);
        yield { type: "deleted" };
        return;
      }
      const { cuts } = now.state.session;
      if (now.text !== this.#state) yield { type: "state", state: now.state };
      this.#state = now.text;
      if (cuts.length !== this.#cursor.cuts || this.#isLost) yield this.#cut(cuts);
      const page = await this.#tail.from(Math.max(1, this.#cursor.seq));
      for (const message of page.messages) for (const event of this.#eventsOf(message)) yield event;
      more = page.more;
    }
    for (const { callId, text } of this.#tail.progress(this.#progress)) yield { type: "tool_progress", callId, text };
  }

  /** Everything that a revert or a restore touched since the cursor is void. */
  #cut(cuts: readonly number[]): WatchEvent {
    const known = this.#cursor.cuts;
    const after = this.#isLost ? 0 : Math.min(...cuts.slice(known));
    this.#isLost = false;
    const { seq } = this.#cursor;
    this.#cursor =
      seq > after ? { cuts: cuts.length, seq: after, within: undefined } : { ...this.#cursor, cuts: cuts.length };
    return { type: "cut", cursor: this.#id, after };
  }

  /** What the reader lacks of a message. */
  #eventsOf(message: Message): WatchEvent[] {
    const { seq, within } = this.#cursor;
    if (message.seq > seq) return [this.#whole(message)];
    if (message.seq < seq || !within) return [];
    const said = { text: joined(message, "text"), reasoning: joined(message, "reasoning") };
    const told = this.#told;
    const fits =
      said.text.length >= within.text &&
      said.reasoning.length >= within.reasoning &&
      (!told || !message.finished || (said.text.startsWith(told.text) && said.reasoning.startsWith(told.reasoning)));
    if (!fits) return [this.#whole(message)];
    const events: WatchEvent[] = [];
    let { text, reasoning } = within;
    const grow = (kind: "text" | "reasoning", more: string) => {
      if (more === "") return;
      if (kind === "text") text += more.length;
      else reasoning += more.length;
      this.#cursor = { ...this.#cursor, within: { text, reasoning } };
      if (told) told[kind] += more;
      events.push({ type: "delta", cursor: this.#id, messageId: message.id, seq, kind, text: more });
    };
    grow("reasoning", said.reasoning.slice(reasoning));
    grow("text", said.text.slice(text));
    if (message.finished) {
      this.#cursor = { ...this.#cursor, within: undefined };
      this.#told = undefined;
      events.push({ type: "message_end", cursor: this.#id, message });
    }
    return events;
  }

  #whole(message: Message): WatchEvent {
    const [text, reasoning] = [joined(message, "text"), joined(message, "reasoning")];
    const within = message.finished ? undefined : { text: text.length, reasoning: reasoning.length };
    this.#told = message.finished ? undefined : { text, reasoning };
    this.#cursor = { ...this.#cursor, seq: message.seq, within };
    // What the tail has goes on growing.
    return { type: "message", cursor: this.#id, message: structuredClone(message) };
  }
}

function joined(message: Message, kind: "text" | "reasoning"): string {
  return message.parts.map((part) => (part.type === kind ? part.text : "")).join("");
}
