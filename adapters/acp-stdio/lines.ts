import { LINE_FEED } from "./wire.js";

/** A line of a stream, or the fault of a line that is too long or not UTF-8. */
export type InputLine = { text: string } | { fault: "too_long" | "not_utf8" };

/** Splits bytes into lines. Discards the pieces of a line over `maxBytes` as they arrive. */
export class LineSplitter {
  readonly #maxBytes: number;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  #pieces: Buffer[] = [];
  #lineBytes = 0;
  #isTooLong = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Yields the lines that end in this chunk, except empty lines. The caller must consume all lines. */
  *push(chunk: Buffer): Generator<InputLine> {
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, start)) {
      this.#add(chunk.subarray(start, end));
      start = end + 1;
      yield* this.#takeLine();
    }
    this.#add(chunk.subarray(start));
  }

  /** Yields the last line, if the stream ended without a line feed. */
  *end(): Generator<InputLine> {
    yield* this.#takeLine();
  }

  #add(piece: Buffer): void {
    if (this.#isTooLong || piece.length === 0) return;
    this.#lineBytes += piece.length;
    if (this.#lineBytes > this.#maxBytes) {
      this.#isTooLong = true;
      this.#pieces = [];
    } else this.#pieces.push(piece);
  }

  *#takeLine(): Generator<InputLine> {
    const { length } = this.#pieces;
    const line = length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces);
    const isTooLong = this.#isTooLong;
    this.#pieces = [];
    this.#lineBytes = 0;
    this.#isTooLong = false;
    if (isTooLong) {
      yield { fault: "too_long" };
      return;
    }
    let text: string;
    try {
      text = this.#decoder.decode(line);
    } catch {
      yield { fault: "not_utf8" };
      return;
    }
    if (text.trim() !== "") yield { text };
  }
}
