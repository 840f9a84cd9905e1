import type { Message } from "../ports/message.js";
import type { WatchEvent } from "../ports/watch.js";
import { type Cursor, formatCursor, hashOf, hashOfRewinds, type CursorCheck } from "./cursor.js";

type Kind = "text" | "reasoning";
type Hashes = Readonly<Record<Kind, number>>;

const EMPTY: Hashes = { text: hashOf(""), reasoning: hashOf("") };

/** Maximum characters per delta. Slow readers get several. */
const MAX_DELTA_CHARACTERS = 16 * 1024;

/** Events that move a reader from one position to another. */
export interface PositionChange {
  readonly events: readonly WatchEvent[];
  readonly position: StreamPosition;
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

  constructor(rootId: string, cursor: Cursor, ofCuts = 0, sentHashes?: Hashes) {
    this.#rootId = rootId;
    this.cursor = cursor;
    this.#hashOfCuts = ofCuts;
    this.#sentHashes = sentHashes;
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
  voidAfter(cuts: readonly number[]): number | undefined {
    const { cuts: knownCuts } = this.cursor;
    if (cuts.length < knownCuts) return 0;
    return cuts.length > knownCuts ? Math.min(...cuts.slice(knownCuts)) : undefined;
  }

  /** The same position for a session with these rewinds. */
  withRewinds(cuts: readonly number[]): StreamPosition {
    const hash = hashOfRewinds(cuts);
    return hash === this.#hashOfCuts ? this : new StreamPosition(this.#rootId, this.cursor, hash, this.#sentHashes);
  }

  /** Moves back to `after`: all later messages are void. `last`: the message at `after`, or a later one. */
  rewind(after: number, cuts: readonly number[], last: Message | undefined): PositionChange {
    const { seq, within, proof } = this.cursor;
    const count = cuts.length;
    const hash = hashOfRewinds(cuts);
    let place: StreamPosition;
    if (seq <= after) {
      const cursor = { cuts: count, seq, within, proof: proof && { ...proof, cuts: hash } };
      place = new StreamPosition(this.#rootId, cursor, hash, this.#sentHashes);
    } else {
      const proof = { cuts: hash, message: 0, content: 0 };
      place = new StreamPosition(this.#rootId, { cuts: count, seq: after, within: undefined, proof }, hash);
      // A reader that received later messages has all of this message, finished or not.
      if (last?.seq === after) place = place.#afterMessage(last);
    }
    return { events: [{ type: "rewind", cursor: place.id, after }], position: place };
  }

  /**
   * The events for the part of a message that the reader lacks. `isGrowing`: the message comes from the run that writes
   * it in this process. Readers may have read slightly more from the store.
   */
  eventsFor(message: Message, isGrowing = false): PositionChange {
    const { seq, within, proof } = this.cursor;
    if (message.seq < seq) return { events: [], position: this };
    if (message.seq > seq) return this.#sendFullMessage(message);
    // A message that was sent as complete but is not: the store has lost its end.
    if (!within)
      return message.finished || isGrowing || !proof?.message
        ? { events: [], position: this }
        : this.#sendFullMessage(message);
    const texts = textsOf(message);
    const sentHashes = this.#sentHashes ?? hashesOf(texts, within);
    const isShorter = texts.text.length < within.text || texts.reasoning.length < within.reasoning;
    if ((this.#sentHashes || isGrowing) && !message.finished && isShorter) return { events: [], position: this };
    // While it is watched, a message only grows. Its final text may differ, so compare the hashes again.
    const storedHashes = message.finished ? hashesOf(texts, within) : sentHashes;
    if (isShorter || (proof && combinedHash(storedHashes) !== proof.content)) return this.#sendFullMessage(message);
    const events: WatchEvent[] = [];
    let place = new StreamPosition(this.#rootId, this.cursor, this.#hashOfCuts, sentHashes);
    for (const kind of ["reasoning", "text"] as const) {
      for (let at = within[kind]; at < texts[kind].length; at += MAX_DELTA_CHARACTERS) {
        const text = texts[kind].slice(at, at + MAX_DELTA_CHARACTERS);
        place = place.#afterDelta(message.id, kind, text);
        events.push({ type: "delta", cursor: place.id, messageId: message.id, seq, kind, text });
      }
    }
    if (message.finished) {
      place = place.#afterMessage(message);
      events.push({ type: "message_end", cursor: place.id, message: copyOf(message) });
    }
    return { events, position: place };
  }

  #sendFullMessage(message: Message): PositionChange {
    const { text, reasoning } = textsOf(message);
    if (!message.finished && text.length + reasoning.length > MAX_DELTA_CHARACTERS) {
      const first = this.#sendFullMessage({ ...message, parts: [] });
      const remainder = first.position.eventsFor(message);
      return { events: [...first.events, ...remainder.events], position: remainder.position };
    }
    const place = this.#afterMessage(message);
    return { events: [{ type: "message", cursor: place.id, message: copyOf(message) }], position: place };
  }

  #afterDelta(messageId: string, kind: Kind, text: string): StreamPosition {
    const { within = { text: 0, reasoning: 0 } } = this.cursor;
    const before = this.#sentHashes ?? EMPTY;
    const hashes = { ...before, [kind]: hashOf(text, before[kind]) };
    return this.#at(
      { ...this.cursor, within: { ...within, [kind]: within[kind] + text.length } },
      { message: hashOf(messageId), content: combinedHash(hashes) },
      hashes,
    );
  }

  /** The position after all that exists of a message. */
  #afterMessage(message: Message): StreamPosition {
    const { id, seq, finished } = message;
    const texts = finished ? undefined : textsOf(message);
    const within = texts && { text: texts.text.length, reasoning: texts.reasoning.length };
    const hashes = texts && within && hashesOf(texts, within);
    return this.#at(
      { ...this.cursor, seq, within },
      { message: hashOf(id), content: hashes ? combinedHash(hashes) : 0 },
      hashes,
    );
  }

  #at(cursor: Cursor, proof: Omit<CursorCheck, "cuts">, sentHashes: Hashes | undefined): StreamPosition {
    const cuts = this.#hashOfCuts;
    return new StreamPosition(this.#rootId, { ...cursor, proof: { cuts, ...proof } }, cuts, sentHashes);
  }
}

function textsOf({ parts }: Message): Record<Kind, string> {
  const joined = (kind: Kind): string => parts.map((part) => (part.type === kind ? part.text : "")).join("");
  return { text: joined("text"), reasoning: joined("reasoning") };
}

/** Hashes of the beginnings of the texts. */
function hashesOf(texts: Record<Kind, string>, length: Record<Kind, number>): Hashes {
  return {
    text: hashOf(texts.text.slice(0, length.text)),
    reasoning: hashOf(texts.reasoning.slice(0, length.reasoning)),
  };
}

/** Combines two hashes. */
function combinedHash({ text, reasoning }: Hashes): number {
  return (text ^ Math.imul(reasoning, 31)) >>> 0;
}

/** A copy, because the tail's message keeps growing. */
function copyOf(message: Message): Message {
  return { ...message, parts: message.parts.map((part) => ({ ...part })) };
}
