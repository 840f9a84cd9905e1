import type { Message } from "../ports/message.js";
import type { WatchEvent } from "../ports/watch.js";
import { type Cursor, formatCursor, hashOf, hashOfRewinds, type CursorCheck } from "./cursor.js";

type Kind = "text" | "reasoning";
type Hashes = Readonly<Record<Kind, number>>;

const EMPTY: Hashes = { text: hashOf(""), reasoning: hashOf("") };

/** Maximum characters per delta. Slow readers get several. */
const DELTA = 16 * 1024;

/** Events that move a reader from one position to another. */
export interface PositionChange {
  readonly events: readonly WatchEvent[];
  readonly place: StreamPosition;
}

/** The position of a reader. Immutable: readers with the same cursor share it, and the events that follow. */
export class StreamPosition {
  readonly cursor: Cursor;
  readonly #rootId: string;
  /** Hash of the rewinds that the cursor counts. */
  readonly #hashOfCuts: number;
  /**
   * Hashes of the sent part of the growing message at the cursor. Undefined until that part was compared with the
   * stored message.
   */
  readonly #sentHashes: Hashes | undefined;
  #id: string | undefined;

  constructor(rootId: string, cursor: Cursor, ofCuts = 0, told?: Hashes) {
    this.#rootId = rootId;
    this.cursor = cursor;
    this.#hashOfCuts = ofCuts;
    this.#sentHashes = told;
  }

  /** The cursor in the form that readers see. */
  get id(): string {
    return (this.#id ??= formatCursor(this.#rootId, this.cursor));
  }

  /** Positions with the same key continue with the same events. */
  get key(): string {
    return this.#sentHashes ? this.id : `?${this.id}`;
  }

  /** The `seq` after which the reader's messages are void; undefined if all are valid. */
  cutOf(cuts: readonly number[]): number | undefined {
    const { cuts: known } = this.cursor;
    if (cuts.length < known) return 0;
    return cuts.length > known ? Math.min(...cuts.slice(known)) : undefined;
  }

  /** The same position for a session with these rewinds. */
  with(cuts: readonly number[]): StreamPosition {
    const hash = hashOfRewinds(cuts);
    return hash === this.#hashOfCuts ? this : new StreamPosition(this.#rootId, this.cursor, hash, this.#sentHashes);
  }

  /** Moves back to `after`: all later messages are void. `last`: the message at `after`, or a later one. */
  cut(after: number, cuts: readonly number[], last: Message | undefined): PositionChange {
    const { seq, within, proof } = this.cursor;
    const count = cuts.length;
    const hash = hashOfRewinds(cuts);
    let place: StreamPosition;
    if (seq <= after) {
      const cursor = { cuts: count, seq, within, proof: proof && { ...proof, cuts: hash } };
      place = new StreamPosition(this.#rootId, cursor, hash, this.#sentHashes);
    } else {
      const proof = { cuts: hash, message: 0, said: 0 };
      place = new StreamPosition(this.#rootId, { cuts: count, seq: after, within: undefined, proof }, hash);
      // A reader that received later messages has all of this message, finished or not.
      if (last?.seq === after) place = place.#behind(last);
    }
    return { events: [{ type: "rewind", cursor: place.id, after }], place };
  }

  /**
   * The events for the part of a message that the reader lacks. `isGrowing`: the message comes from the run that writes
   * it in this process. Readers may have read slightly more from the store.
   */
  eventsFor(message: Message, isGrowing = false): PositionChange {
    const { seq, within, proof } = this.cursor;
    if (message.seq < seq) return { events: [], place: this };
    if (message.seq > seq) return this.#whole(message);
    // A message that was sent as complete but is not: the store has lost its end.
    if (!within)
      return message.finished || isGrowing || !proof?.message ? { events: [], place: this } : this.#whole(message);
    const said = saidOf(message);
    const told = this.#sentHashes ?? hashesOf(said, within);
    const isShorter = said.text.length < within.text || said.reasoning.length < within.reasoning;
    if ((this.#sentHashes || isGrowing) && !message.finished && isShorter) return { events: [], place: this };
    // While it is watched, a message only grows. Its final text may differ, so compare the hashes again.
    const found = message.finished ? hashesOf(said, within) : told;
    if (isShorter || (proof && both(found) !== proof.said)) return this.#whole(message);
    const events: WatchEvent[] = [];
    let place = new StreamPosition(this.#rootId, this.cursor, this.#hashOfCuts, told);
    for (const kind of ["reasoning", "text"] as const) {
      for (let at = within[kind]; at < said[kind].length; at += DELTA) {
        const text = said[kind].slice(at, at + DELTA);
        place = place.#grown(message.id, kind, text);
        events.push({ type: "delta", cursor: place.id, messageId: message.id, seq, kind, text });
      }
    }
    if (message.finished) {
      place = place.#behind(message);
      events.push({ type: "message_end", cursor: place.id, message: copyOf(message) });
    }
    return { events, place };
  }

  #whole(message: Message): PositionChange {
    const { text, reasoning } = saidOf(message);
    if (!message.finished && text.length + reasoning.length > DELTA) {
      const first = this.#whole({ ...message, parts: [] });
      const rest = first.place.eventsFor(message);
      return { events: [...first.events, ...rest.events], place: rest.place };
    }
    const place = this.#behind(message);
    return { events: [{ type: "message", cursor: place.id, message: copyOf(message) }], place };
  }

  #grown(messageId: string, kind: Kind, text: string): StreamPosition {
    const { within = { text: 0, reasoning: 0 } } = this.cursor;
    const before = this.#sentHashes ?? EMPTY;
    const told = { ...before, [kind]: hashOf(text, before[kind]) };
    return this.#at(
      { ...this.cursor, within: { ...within, [kind]: within[kind] + text.length } },
      { message: hashOf(messageId), said: both(told) },
      told,
    );
  }

  /** The position after all that exists of a message. */
  #behind(message: Message): StreamPosition {
    const { id, seq, finished } = message;
    const said = finished ? undefined : saidOf(message);
    const within = said && { text: said.text.length, reasoning: said.reasoning.length };
    const told = said && within && hashesOf(said, within);
    return this.#at({ ...this.cursor, seq, within }, { message: hashOf(id), said: told ? both(told) : 0 }, told);
  }

  #at(cursor: Cursor, proof: Omit<CursorCheck, "cuts">, told: Hashes | undefined): StreamPosition {
    const cuts = this.#hashOfCuts;
    return new StreamPosition(this.#rootId, { ...cursor, proof: { cuts, ...proof } }, cuts, told);
  }
}

function saidOf({ parts }: Message): Record<Kind, string> {
  const joined = (kind: Kind): string => parts.map((part) => (part.type === kind ? part.text : "")).join("");
  return { text: joined("text"), reasoning: joined("reasoning") };
}

/** Hashes of the beginnings of the texts. */
function hashesOf(said: Record<Kind, string>, length: Record<Kind, number>): Hashes {
  return {
    text: hashOf(said.text.slice(0, length.text)),
    reasoning: hashOf(said.reasoning.slice(0, length.reasoning)),
  };
}

/** Combines two hashes. */
function both({ text, reasoning }: Hashes): number {
  return (text ^ Math.imul(reasoning, 31)) >>> 0;
}

/** A copy, because the tail's message keeps growing. */
function copyOf(message: Message): Message {
  return { ...message, parts: message.parts.map((part) => ({ ...part })) };
}
