import { hasCode, ProviderError } from "gantry";
import { BODY_LIMITS, checkSize, createTooLargeError } from "../bodies.js";
import { toUnexpectedBodyError, type FaultContext } from "../errors.js";
import { parseJsonObject } from "../json.js";
import type { StreamPart } from "../language-model.js";
import type { ByteSource } from "../response-bytes.js";
import type { AnswerReader } from "./answer-reader.js";
import { AnswerEventParser } from "./event-lines.js";

/** Source of the parts of an answer. A batch may be empty; undefined is the end. */
export interface PartSource {
  next(): Promise<readonly StreamPart[] | undefined>;
  /** Discards the remaining parts. `isComplete`: everything of interest was read, so the connection may be reused. */
  release(isComplete?: boolean): void;
}

const EVENT_DESCRIPTION = "an event, or a body without events,";
/** Size of the first read. A large first piece may be the whole answer, whose beginning is then returned first. */
const FIRST_READ_BYTES = 2048;
const LF = 0x0a;
const CR = 0x0d;
/** Skipped at the start: white space, and the byte order mark that some servers send first. */
const LEADING_BYTES = new Set([0x20, 0x09, LF, CR, 0xef, 0xbb, 0xbf]);
/** First characters of a complete answer: a JSON value, or an HTML or XML error page. */
const COMPLETE_FIRST_BYTES = new Set([..."{[<"].map((first) => first.charCodeAt(0)));

/**
 * Reads the body of an answer: a stream of events, or a complete JSON answer. The first character decides, because
 * servers use any content type for either. The memory is bounded, whatever the provider sends.
 */
export class AnswerBody implements PartSource {
  readonly #body: ByteSource;
  readonly #url: string;
  readonly #reader: AnswerReader;
  readonly #context: FaultContext;
  readonly #lines = new AnswerEventParser(BODY_LIMITS.eventBytes, (name, data) => this.#handleEvent(name, data));
  #form: "unknown" | "events" | "complete" = "unknown";
  /** The beginning of a line, or of the complete answer. */
  #partialPieces: Buffer[] = [];
  #partialBytes = 0;
  #totalBytes = 0;
  #isEnded = false;
  #hasFirstPiece = false;
  /** The unread part of the first piece. */
  #firstRemainder: Buffer | undefined;
  #parts: StreamPart[] = [];

  constructor(body: ByteSource, url: string, reader: AnswerReader, context: FaultContext) {
    this.#body = body;
    this.#url = url;
    this.#reader = reader;
    this.#context = context;
  }

  async next(): Promise<readonly StreamPart[] | undefined> {
    if (this.#isEnded) return undefined;
    this.#parts = [];
    let piece = this.#firstRemainder;
    this.#firstRemainder = undefined;
    try {
      piece ??= await this.#body.next();
    } catch (error) {
      // After a complete answer a broken connection does not matter.
      if (!this.#reader.isComplete) throw hasCode(error, "provider") ? error : new InterruptedAnswer(this.#url, error);
    }
    if (piece !== undefined && piece.length > FIRST_READ_BYTES && !this.#hasFirstPiece) {
      this.#firstRemainder = piece.subarray(FIRST_READ_BYTES);
      piece = piece.subarray(0, FIRST_READ_BYTES);
    }
    this.#hasFirstPiece = true;
    if (piece === undefined) this.#finish();
    else this.#addPiece(piece);
    return this.#parts;
  }

  release(isComplete = false): void {
    this.#isEnded = true;
    this.#body.release(isComplete);
  }

  #addPiece(piece: Buffer): void {
    const { provider } = this.#context;
    this.#totalBytes += piece.length;
    if (this.#totalBytes > BODY_LIMITS.answerBytes)
      throw createTooLargeError(provider, "an answer", BODY_LIMITS.answerBytes);
    let from = 0;
    if (this.#form === "unknown") {
      while (from < piece.length && LEADING_BYTES.has(piece[from]!)) from++;
      if (from === piece.length) return;
      this.#form = COMPLETE_FIRST_BYTES.has(piece[from]!) ? "complete" : "events";
    }
    // Only complete lines are decoded: no character is split at a line end.
    const end = this.#form === "complete" ? 0 : Math.max(piece.lastIndexOf(LF), piece.lastIndexOf(CR)) + 1;
    if (end > 0) this.#parseLines(this.#takeText(piece.subarray(from, end)));
    const remainder = piece.subarray(Math.max(from, end));
    if (remainder.length === 0) return;
    this.#partialPieces.push(remainder);
    this.#partialBytes += remainder.length;
    if (this.#partialBytes > BODY_LIMITS.eventBytes) this.#checkEventSize(Buffer.concat(this.#partialPieces));
  }

  #parseLines(lines: string): void {
    try {
      this.#lines.push(lines);
    } catch (error) {
      throw error instanceof RangeError
        ? createTooLargeError(this.#context.provider, EVENT_DESCRIPTION, BODY_LIMITS.eventBytes)
        : error;
    }
  }

  #checkEventSize(bytes: Buffer): void {
    checkSize(bytes, BODY_LIMITS.eventBytes, this.#context.provider, EVENT_DESCRIPTION, "an event");
  }

  /** Returns the partial pieces and this piece as text, and clears the partial pieces. */
  #takeText(piece?: Buffer): string {
    if (this.#partialBytes === 0) return piece?.toString() ?? "";
    const pieces = this.#partialPieces;
    if (piece !== undefined) pieces.push(piece);
    this.#partialPieces = [];
    this.#partialBytes = 0;
    return Buffer.concat(pieces).toString();
  }

  #finish(): void {
    if (this.#form === "complete") {
      this.#isEnded = true;
      this.#readComplete(this.#takeText());
      return;
    }
    this.#lines.end(this.#takeText());
    this.#endReader(false);
  }

  #endReader(isDone: boolean): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#reader.end(isDone, this.#parts);
  }

  #handleEvent(name: string, data: string): void {
    if (this.#isEnded) return;
    const text = data.trim();
    if (!text.startsWith("{") && !text.startsWith("[")) {
      // Plain text in an event matters only if it is an error.
      if (name === "error" && text !== "") this.#parts.push({ type: "error", error: text });
      return;
    }
    if (text === "[DONE]") return this.#endReader(true);
    for (const value of this.#parseValues(text)) {
      this.#reader.read(value, name, this.#parts);
      if (this.#reader.isOver) return this.#endReader(true);
    }
  }

  #parseValues(text: string): unknown[] {
    if (text.length > BODY_LIMITS.structuralBytes) this.#checkEventSize(Buffer.from(text));
    const value = parseJsonObject(text);
    if (value !== undefined) return [value];
    // Events without an empty line between them.
    const lines = text.split("\n").filter((line) => line.trim() !== "" && line.trim() !== "[DONE]");
    const values = lines.map(parseJsonObject);
    if (lines.length > 1 && values.every((line) => line !== undefined)) return values;
    // Added as a part, so that earlier parts of the same read are not lost.
    const error = new ProviderError(this.#context.provider, "server", "a malformed chunk in the answer");
    this.#parts.push({ type: "error", error });
    return [];
  }

  #readComplete(body: string): void {
    if (body.length > BODY_LIMITS.structuralBytes) this.#checkEventSize(Buffer.from(body));
    const answer = parseJsonObject(body);
    if (answer === undefined || !this.#reader.readComplete(answer, this.#parts))
      throw toUnexpectedBodyError(body, this.#context);
  }
}

/** A connection that broke within the answer; `toProviderError` reads these fields. */
class InterruptedAnswer extends Error {
  readonly statusCode = 200;
  readonly url: string;
  constructor(url: string, cause: unknown) {
    super(cause instanceof Error ? cause.message : "the answer was interrupted", { cause });
    this.url = url;
  }
}
