import { hasCode, ProviderError } from "gantry";
import { BODY_LIMITS, checkSize, tooLarge } from "../bodies.js";
import { noAnswer, type FaultContext } from "../errors.js";
import { parsed } from "../json.js";
import type { StreamPart } from "../language-model.js";
import type { Bytes } from "../response-bytes.js";
import type { AnswerReader } from "./answer-reader.js";
import { EventLines } from "./event-lines.js";

/** Parts of an answer as they come; an empty batch is possible, undefined is the end. */
export interface PartSource {
  next(): Promise<readonly StreamPart[] | undefined>;
  /** Let go of what nobody reads; `over`: all that matters was read. */
  leave(over?: boolean): void;
}

const EVENT = "an event, or a body without events,";
/** So many bytes are read first of all: what comes in one piece may be the whole answer, and others wait for their first words. */
const FIRST = 2048;
const LF = 0x0a;
const CR = 0x0d;
/** White space, and the mark that some put before their first byte. */
const BEFORE = new Set([0x20, 0x09, LF, CR, 0xef, 0xbb, 0xbf]);
const WHOLE = new Set([..."{[<"].map((first) => first.charCodeAt(0)));

/**
 * Reads the body of an answer: events as a stream, or the whole in one piece, which is told by its first character,
 * since servers put any type of content on either. What is held of it is bounded, whatever the provider sends.
 */
export class AnswerBody implements PartSource {
  readonly #body: Bytes;
  readonly #url: string;
  readonly #reader: AnswerReader;
  readonly #context: FaultContext;
  readonly #lines = new EventLines(BODY_LIMITS.event, (name, data) => this.#event(name, data));
  #form: "unknown" | "events" | "whole" = "unknown";
  /** The beginning of a line, or of the whole. */
  #held: Buffer[] = [];
  #heldBytes = 0;
  #bytes = 0;
  #ended = false;
  #begun = false;
  /** Of the first piece, what was not read yet. */
  #rest: Buffer | undefined;
  #parts: StreamPart[] = [];

  constructor(body: Bytes, url: string, reader: AnswerReader, context: FaultContext) {
    this.#body = body;
    this.#url = url;
    this.#reader = reader;
    this.#context = context;
  }

  async next(): Promise<readonly StreamPart[] | undefined> {
    if (this.#ended) return undefined;
    this.#parts = [];
    let piece = this.#rest;
    this.#rest = undefined;
    try {
      piece ??= await this.#body.next();
    } catch (error) {
      // Nothing is missing: the connection may go as it likes.
      if (!this.#reader.complete) throw hasCode(error, "provider") ? error : new Broken(this.#url, error);
    }
    if (piece !== undefined && piece.length > FIRST && !this.#begun) {
      this.#rest = piece.subarray(FIRST);
      piece = piece.subarray(0, FIRST);
    }
    this.#begun = true;
    if (piece === undefined) this.#finish();
    else this.#take(piece);
    return this.#parts;
  }

  leave(over = false): void {
    this.#ended = true;
    this.#body.leave(over);
  }

  #take(piece: Buffer): void {
    const { provider } = this.#context;
    this.#bytes += piece.length;
    if (this.#bytes > BODY_LIMITS.answer) throw tooLarge(provider, "an answer", BODY_LIMITS.answer);
    let from = 0;
    if (this.#form === "unknown") {
      while (from < piece.length && BEFORE.has(piece[from]!)) from++;
      if (from === piece.length) return;
      this.#form = WHOLE.has(piece[from]!) ? "whole" : "events";
    }
    // Lines that are whole: no character is cut in two there.
    const end = this.#form === "whole" ? 0 : Math.max(piece.lastIndexOf(LF), piece.lastIndexOf(CR)) + 1;
    if (end > 0) this.#push(this.#text(piece.subarray(from, end)));
    const rest = piece.subarray(Math.max(from, end));
    if (rest.length === 0) return;
    this.#held.push(rest);
    this.#heldBytes += rest.length;
    if (this.#heldBytes > BODY_LIMITS.event) this.#check(Buffer.concat(this.#held));
  }

  #push(lines: string): void {
    try {
      this.#lines.push(lines);
    } catch (error) {
      throw error instanceof RangeError ? tooLarge(this.#context.provider, EVENT, BODY_LIMITS.event) : error;
    }
  }

  #check(bytes: Buffer): void {
    checkSize(bytes, BODY_LIMITS.event, this.#context.provider, EVENT, "an event");
  }

  /** What was held, and this. */
  #text(piece?: Buffer): string {
    if (this.#heldBytes === 0) return piece?.toString() ?? "";
    const held = this.#held;
    if (piece !== undefined) held.push(piece);
    this.#held = [];
    this.#heldBytes = 0;
    return Buffer.concat(held).toString();
  }

  #finish(): void {
    if (this.#form === "whole") {
      this.#ended = true;
      this.#readWhole(this.#text());
      return;
    }
    this.#lines.end(this.#text());
    this.#end(false);
  }

  #end(done: boolean): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#reader.end(done, this.#parts);
  }

  #event(name: string, data: string): void {
    if (this.#ended) return;
    const text = data.trim();
    if (!text.startsWith("{") && !text.startsWith("[")) {
      // Words between the events; an error is the one kind that counts.
      if (name === "error" && text !== "") this.#parts.push({ type: "error", error: text });
      return;
    }
    if (text === "[DONE]") return this.#end(true);
    for (const value of this.#values(text)) {
      this.#reader.read(value, name, this.#parts);
      if (this.#reader.over) return this.#end(true);
    }
  }

  #values(text: string): unknown[] {
    if (text.length > BODY_LIMITS.values) this.#check(Buffer.from(text));
    const value = parsed(text);
    if (value !== undefined) return [value];
    // Events without an empty line between them.
    const lines = text.split("\n").filter((line) => line.trim() !== "" && line.trim() !== "[DONE]");
    const values = lines.map(parsed);
    if (lines.length > 1 && values.every((line) => line !== undefined)) return values;
    // Told in its place, so that what came before it in the same read is not lost.
    const error = new ProviderError(this.#context.provider, "server", "a malformed chunk in the answer");
    this.#parts.push({ type: "error", error });
    return [];
  }

  #readWhole(body: string): void {
    if (body.length > BODY_LIMITS.values) this.#check(Buffer.from(body));
    const whole = parsed(body);
    if (whole === undefined || !this.#reader.whole(whole, this.#parts)) throw noAnswer(body, this.#context);
  }
}

/** A connection that broke amid the answer; `toProviderError` reads these fields. */
class Broken extends Error {
  readonly statusCode = 200;
  readonly url: string;
  constructor(url: string, cause: unknown) {
    super(cause instanceof Error ? cause.message : "the answer broke off", { cause });
    this.url = url;
  }
}
