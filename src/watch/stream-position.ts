import type { Message } from "../ports/message.js";
import type { WatchEvent } from "../ports/watch.js";
import { type Cursor, formatCursor, computeHash, hashRewinds, type CursorCheck } from "./cursor.js";

type TextKind = "text" | "reasoning";
type Hashes = Readonly<Record<TextKind, number>>;

const EMPTY_HASHES: Hashes = { text: computeHash(""), reasoning: computeHash("") };

/** Maximum characters per delta. Slow readers get several deltas. */
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
  readonly #rewindsHash: number;
  /**
   * Hashes of the sent part of the growing message at the cursor. Undefined until that part was compared with the
   * stored message.
   */
  readonly #sentHashes: Hashes | undefined;
  #id: string | undefined;

  constructor(rootId: string, cursor: Cursor, rewindsHash = 0, sentHashes?: Hashes) {
    this.#rootId = rootId;
    this.cursor = cursor;
    this.#rewindsHash = rewindsHash;
    this.#sentHashes = sentHashes;
  }

  /** The cursor in the form that readers see. */
  get cursorText(): string {
    return (this.#id ??= formatCursor(this.#rootId, this.cursor));
  }

  /** Positions with the same key continue with the same events. */
  get key(): string {
    return this.#sentHashes ? this.cursorText : `?${this.cursorText}`;
  }

  /** Returns the `seq` after which the reader's messages are void; undefined if all are valid. */
  findVoidAfter(rewinds: readonly number[]): number | undefined {
    const { rewindCount: readerCount } = this.cursor;
    if (rewinds.length < readerCount) return 0;
    return rewinds.length > readerCount ? Math.min(...rewinds.slice(readerCount)) : undefined;
  }

  /** Returns the same position for a session with these rewinds. */
  withRewinds(rewinds: readonly number[]): StreamPosition {
    const rewindsHash = hashRewinds(rewinds);
    return rewindsHash === this.#rewindsHash
      ? this
      : new StreamPosition(this.#rootId, this.cursor, rewindsHash, this.#sentHashes);
  }

  /**
   * Moves back to `after`: all later messages are void. `nextMessage`: the first visible message from `after` on;
   * undefined if there is none.
   */
  rewind(after: number, rewinds: readonly number[], nextMessage: Message | undefined): PositionChange {
    const { seq, receivedLengths, check } = this.cursor;
    const rewindCount = rewinds.length;
    const rewindsHash = hashRewinds(rewinds);
    let position: StreamPosition;
    if (seq <= after) {
      const cursor = { rewindCount, seq, receivedLengths, check: check && { ...check, rewindsHash } };
      position = new StreamPosition(this.#rootId, cursor, rewindsHash, this.#sentHashes);
    } else {
      const check = { rewindsHash, messageHash: 0, contentHash: 0 };
      position = new StreamPosition(
        this.#rootId,
        { rewindCount, seq: after, receivedLengths: undefined, check },
        rewindsHash,
      );
      // A reader that received later messages has all of this message, finished or not.
      if (nextMessage?.seq === after) position = position.#afterMessage(nextMessage);
    }
    return { events: [{ type: "rewind", cursor: position.cursorText, after }], position };
  }

  /**
   * Creates the events for the part of a message that the reader lacks. `isGrowing`: the message comes from the run
   * that writes it in this process. Readers may have read slightly more from the store.
   */
  createEvents(message: Message, isGrowing = false): PositionChange {
    const { seq, receivedLengths, check } = this.cursor;
    if (message.seq < seq) return { events: [], position: this };
    if (message.seq > seq) return this.#sendFullMessage(message);
    // The message was sent as complete but is stored as growing: the store has lost the end of the message.
    if (!receivedLengths)
      return message.finished || isGrowing || !check?.messageHash
        ? { events: [], position: this }
        : this.#sendFullMessage(message);
    const texts = joinTexts(message);
    const sentHashes = this.#sentHashes ?? hashTexts(texts, receivedLengths);
    const isShorter = texts.text.length < receivedLengths.text || texts.reasoning.length < receivedLengths.reasoning;
    if ((this.#sentHashes || isGrowing) && !message.finished && isShorter) return { events: [], position: this };
    // A watched message only grows. The final text may differ, so compare the hashes again.
    const storedHashes = message.finished ? hashTexts(texts, receivedLengths) : sentHashes;
    if (isShorter || (check && combineHashes(storedHashes) !== check.contentHash))
      return this.#sendFullMessage(message);
    const events: WatchEvent[] = [];
    let position = new StreamPosition(this.#rootId, this.cursor, this.#rewindsHash, sentHashes);
    for (const kind of ["reasoning", "text"] as const) {
      for (let start = receivedLengths[kind]; start < texts[kind].length; start += MAX_DELTA_CHARACTERS) {
        const text = texts[kind].slice(start, start + MAX_DELTA_CHARACTERS);
        position = position.#afterDelta(message.id, kind, text);
        events.push({ type: "delta", cursor: position.cursorText, messageId: message.id, seq, kind, text });
      }
    }
    if (message.finished) {
      position = position.#afterMessage(message);
      events.push({ type: "message_end", cursor: position.cursorText, message: copyMessage(message) });
    }
    return { events, position };
  }

  #sendFullMessage(message: Message): PositionChange {
    const { text, reasoning } = joinTexts(message);
    if (!message.finished && text.length + reasoning.length > MAX_DELTA_CHARACTERS) {
      const startChange = this.#sendFullMessage({ ...message, parts: [] });
      const textChange = startChange.position.createEvents(message);
      return { events: [...startChange.events, ...textChange.events], position: textChange.position };
    }
    const position = this.#afterMessage(message);
    return { events: [{ type: "message", cursor: position.cursorText, message: copyMessage(message) }], position };
  }

  /** Returns the position after a piece of text of the growing message. */
  #afterDelta(messageId: string, kind: TextKind, text: string): StreamPosition {
    const { receivedLengths = { text: 0, reasoning: 0 } } = this.cursor;
    const previousHashes = this.#sentHashes ?? EMPTY_HASHES;
    const hashes = { ...previousHashes, [kind]: computeHash(text, previousHashes[kind]) };
    return this.#moveTo(
      { ...this.cursor, receivedLengths: { ...receivedLengths, [kind]: receivedLengths[kind] + text.length } },
      { messageHash: computeHash(messageId), contentHash: combineHashes(hashes) },
      hashes,
    );
  }

  /** Returns the position after all stored content of a message. */
  #afterMessage(message: Message): StreamPosition {
    const { id, seq, finished } = message;
    const texts = finished ? undefined : joinTexts(message);
    const lengths = texts && { text: texts.text.length, reasoning: texts.reasoning.length };
    const hashes = texts && lengths && hashTexts(texts, lengths);
    return this.#moveTo(
      { ...this.cursor, seq, receivedLengths: lengths },
      { messageHash: computeHash(id), contentHash: hashes ? combineHashes(hashes) : 0 },
      hashes,
    );
  }

  #moveTo(cursor: Cursor, check: Omit<CursorCheck, "rewindsHash">, sentHashes: Hashes | undefined): StreamPosition {
    const rewindsHash = this.#rewindsHash;
    return new StreamPosition(this.#rootId, { ...cursor, check: { rewindsHash, ...check } }, rewindsHash, sentHashes);
  }
}

function joinTexts({ parts }: Message): Record<TextKind, string> {
  const joinParts = (kind: TextKind): string => parts.map((part) => (part.type === kind ? part.text : "")).join("");
  return { text: joinParts("text"), reasoning: joinParts("reasoning") };
}

/** Hashes the beginnings of the texts, up to these lengths. */
function hashTexts(texts: Record<TextKind, string>, length: Record<TextKind, number>): Hashes {
  return {
    text: computeHash(texts.text.slice(0, length.text)),
    reasoning: computeHash(texts.reasoning.slice(0, length.reasoning)),
  };
}

function combineHashes({ text, reasoning }: Hashes): number {
  // The factor distinguishes swapped hashes.
  return (text ^ Math.imul(reasoning, 31)) >>> 0;
}

/** Copies a message, because the tail's message keeps growing. */
function copyMessage(message: Message): Message {
  return { ...message, parts: message.parts.map((part) => ({ ...part })) };
}
