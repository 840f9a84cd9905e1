import type { Message } from "../ports/message.js";
import type { WatchEvent } from "../ports/watch.js";
import { type Cursor, formatCursor, hashOf, hashOfCuts, type Proof } from "./cursor.js";

type Kind = "text" | "reasoning";
type Hashes = Readonly<Record<Kind, number>>;

const EMPTY: Hashes = { text: hashOf(""), reasoning: hashOf("") };

/** Most characters of a delta: who is behind is not sent all of it at once. */
const DELTA = 16 * 1024;

/** Events that bring a reader from one place to another. */
export interface Step {
  readonly events: readonly WatchEvent[];
  readonly place: Place;
}

/** What a reader has. It never changes: readers with the same cursor share it, and what they are told next. */
export class Place {
  readonly cursor: Cursor;
  readonly #rootId: string;
  /** Of the cuts that the cursor counts. */
  readonly #hashOfCuts: number;
  /** Of what was told of the growing message at the cursor; undefined until that was compared with what is stored. */
  readonly #told: Hashes | undefined;
  #id: string | undefined;

  constructor(rootId: string, cursor: Cursor, ofCuts = 0, told?: Hashes) {
    this.#rootId = rootId;
    this.cursor = cursor;
    this.#hashOfCuts = ofCuts;
    this.#told = told;
  }

  /** The cursor, as readers know it. */
  get id(): string {
    return (this.#id ??= formatCursor(this.#rootId, this.cursor));
  }

  /** Same places go on in the same way. */
  get key(): string {
    return this.#told ? this.id : `?${this.id}`;
  }

  /** The `seq` after which all that the reader has is void; undefined where nothing is. */
  cutOf(cuts: readonly number[]): number | undefined {
    const { cuts: known } = this.cursor;
    if (cuts.length < known) return 0;
    return cuts.length > known ? Math.min(...cuts.slice(known)) : undefined;
  }

  /** The same where the session was cut so. */
  with(cuts: readonly number[]): Place {
    const hash = hashOfCuts(cuts);
    return hash === this.#hashOfCuts ? this : new Place(this.#rootId, this.cursor, hash, this.#told);
  }

  /** Everything behind `after` is void. `last`: the message there, or a later one. */
  cut(after: number, cuts: readonly number[], last: Message | undefined): Step {
    const { seq, within, proof } = this.cursor;
    const count = cuts.length;
    const hash = hashOfCuts(cuts);
    let place: Place;
    if (seq <= after) {
      const cursor = { cuts: count, seq, within, proof: proof && { ...proof, cuts: hash } };
      place = new Place(this.#rootId, cursor, hash, this.#told);
    } else {
      const proof = { cuts: hash, message: 0, said: 0 };
      place = new Place(this.#rootId, { cuts: count, seq: after, within: undefined, proof }, hash);
      // Whoever was told what came behind it has all of it, whole or not.
      if (last?.seq === after) place = place.#behind(last);
    }
    return { events: [{ type: "cut", cursor: place.id, after }], place };
  }

  /**
   * What the reader lacks of a message. `isGrowing`: as the process knows it that writes it, where others may have read
   * more in the store a moment before.
   */
  news(message: Message, isGrowing = false): Step {
    const { seq, within, proof } = this.cursor;
    if (message.seq < seq) return { events: [], place: this };
    if (message.seq > seq) return this.#whole(message);
    // One that was told as whole and is not has lost its end.
    if (!within)
      return message.finished || isGrowing || !proof?.message ? { events: [], place: this } : this.#whole(message);
    const said = saidOf(message);
    const told = this.#told ?? hashesOf(said, within);
    const isShorter = said.text.length < within.text || said.reasoning.length < within.reasoning;
    if ((this.#told || isGrowing) && !message.finished && isShorter) return { events: [], place: this };
    // While it is watched a message only grows; how it ends is another matter.
    const found = message.finished ? hashesOf(said, within) : told;
    if (isShorter || (proof && both(found) !== proof.said)) return this.#whole(message);
    const events: WatchEvent[] = [];
    let place = new Place(this.#rootId, this.cursor, this.#hashOfCuts, told);
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

  #whole(message: Message): Step {
    const { text, reasoning } = saidOf(message);
    if (!message.finished && text.length + reasoning.length > DELTA) {
      const first = this.#whole({ ...message, parts: [] });
      const rest = first.place.news(message);
      return { events: [...first.events, ...rest.events], place: rest.place };
    }
    const place = this.#behind(message);
    return { events: [{ type: "message", cursor: place.id, message: copyOf(message) }], place };
  }

  #grown(messageId: string, kind: Kind, text: string): Place {
    const { within = { text: 0, reasoning: 0 } } = this.cursor;
    const before = this.#told ?? EMPTY;
    const told = { ...before, [kind]: hashOf(text, before[kind]) };
    return this.#at(
      { ...this.cursor, within: { ...within, [kind]: within[kind] + text.length } },
      { message: hashOf(messageId), said: both(told) },
      told,
    );
  }

  /** The reader has all that there is of a message, and nothing behind it. */
  #behind(message: Message): Place {
    const { id, seq, finished } = message;
    const said = finished ? undefined : saidOf(message);
    const within = said && { text: said.text.length, reasoning: said.reasoning.length };
    const told = said && within && hashesOf(said, within);
    return this.#at({ ...this.cursor, seq, within }, { message: hashOf(id), said: told ? both(told) : 0 }, told);
  }

  #at(cursor: Cursor, proof: Omit<Proof, "cuts">, told: Hashes | undefined): Place {
    const cuts = this.#hashOfCuts;
    return new Place(this.#rootId, { ...cursor, proof: { cuts, ...proof } }, cuts, told);
  }
}

function saidOf({ parts }: Message): Record<Kind, string> {
  const joined = (kind: Kind): string => parts.map((part) => (part.type === kind ? part.text : "")).join("");
  return { text: joined("text"), reasoning: joined("reasoning") };
}

/** Of how it begins. */
function hashesOf(said: Record<Kind, string>, length: Record<Kind, number>): Hashes {
  return {
    text: hashOf(said.text.slice(0, length.text)),
    reasoning: hashOf(said.reasoning.slice(0, length.reasoning)),
  };
}

/** One hash of two. */
function both({ text, reasoning }: Hashes): number {
  return (text ^ Math.imul(reasoning, 31)) >>> 0;
}

/** What the tail has goes on growing. */
function copyOf(message: Message): Message {
  return { ...message, parts: message.parts.map((part) => ({ ...part })) };
}
