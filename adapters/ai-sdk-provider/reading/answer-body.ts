import { hasCode, ProviderError } from "gantry";
import { noAnswer, type FaultContext } from "../errors.js";
import type { StreamPart } from "../language-model.js";
import type { AnswerReader } from "./answer-reader.js";
import type { Handed } from "./hand-over.js";
import { EventLines, type ServerEvent } from "./event-lines.js";
import { parsed } from "../json.js";

/** Characters of one event, or of an answer that comes in one piece. */
const MOST = 8 * 1024 * 1024;

/** Parts of an answer as they come; an empty batch is possible, undefined is the end. */
export interface PartSource {
  next(): Promise<readonly StreamPart[] | undefined>;
  cancel(reason?: unknown): Promise<void>;
}

/**
 * Reads the body of an answer: events as a stream, or the whole in one piece, which is told by its first character,
 * since servers put any type of content on either.
 */
export class AnswerBody implements PartSource {
  readonly #body: ReadableStreamDefaultReader<Uint8Array> | undefined;
  readonly #decoder = new TextDecoder();
  readonly #reader: AnswerReader;
  readonly #context: FaultContext;
  readonly #lines = new EventLines(MOST);
  #form: "unknown" | "events" | "whole" = "unknown";
  #whole: string[] = [];
  #wholeLength = 0;
  #ended = false;
  readonly #url: string;

  constructor({ response, url }: Handed, reader: AnswerReader, context: FaultContext) {
    this.#body = response.body?.getReader();
    this.#url = url;
    this.#reader = reader;
    this.#context = context;
  }

  async next(): Promise<readonly StreamPart[] | undefined> {
    if (this.#ended) return undefined;
    const parts: StreamPart[] = [];
    let next: { done: boolean; value?: Uint8Array | undefined };
    try {
      next = (await this.#body?.read()) ?? { done: true };
    } catch (error) {
      // Nothing is missing: the connection may go as it likes.
      if (!this.#reader.complete) throw hasCode(error, "provider") ? error : new Broken(this.#url, error);
      next = { done: true };
    }
    if (next.done) this.#finish(parts);
    else this.#take(this.#decoder.decode(next.value, { stream: true }), parts);
    return parts;
  }

  async cancel(reason?: unknown): Promise<void> {
    this.#ended = true;
    await this.#body?.cancel(reason);
  }

  #take(piece: string, parts: StreamPart[]): void {
    if (this.#form === "unknown") {
      const first = /\S/.exec(piece)?.[0];
      if (first === undefined) return;
      this.#form = first === "{" || first === "[" || first === "<" ? "whole" : "events";
    }
    if (this.#form === "whole") {
      this.#wholeLength += piece.length;
      if (this.#wholeLength > MOST) throw this.#protocol("an answer that is no event stream and does not end");
      this.#whole.push(piece);
      return;
    }
    try {
      for (const event of this.#lines.push(piece)) this.#event(event, parts);
    } catch (error) {
      throw error instanceof RangeError ? this.#protocol(error.message) : error;
    }
  }

  #finish(parts: StreamPart[]): void {
    if (this.#ended) return;
    this.#take(this.#decoder.decode(), parts);
    if (this.#form === "whole") {
      this.#ended = true;
      this.#readWhole(this.#whole.join(""), parts);
      return;
    }
    for (const event of this.#lines.end()) this.#event(event, parts);
    this.#end(false, parts);
  }

  #end(done: boolean, parts: StreamPart[]): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#reader.end(done, parts);
  }

  #event({ name, data }: ServerEvent, parts: StreamPart[]): void {
    if (this.#ended) return;
    const text = data.trim();
    if (text === "[DONE]") return this.#end(true, parts);
    if (!text.startsWith("{") && !text.startsWith("[")) {
      // Words between the events; an error is the one kind that counts.
      if (name === "error" && text !== "") parts.push({ type: "error", error: text });
      return;
    }
    for (const value of this.#values(text)) {
      this.#reader.read(value, name, parts);
      if (this.#reader.over) return this.#end(true, parts);
    }
  }

  #values(text: string): unknown[] {
    const value = parsed(text);
    if (value !== undefined) return [value];
    // Events without an empty line between them.
    const lines = text.split("\n").filter((line) => line.trim() !== "" && line.trim() !== "[DONE]");
    const values = lines.map(parsed);
    if (lines.length > 1 && values.every((line) => line !== undefined)) return values;
    throw new ProviderError(this.#context.provider, "server", "a malformed chunk in the answer");
  }

  #readWhole(body: string, parts: StreamPart[]): void {
    const whole = parsed(body);
    if (whole === undefined || !this.#reader.whole(whole, parts)) throw noAnswer(body, this.#context);
  }

  #protocol(message: string): ProviderError {
    return new ProviderError(this.#context.provider, "protocol", this.#context.redact(message));
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
