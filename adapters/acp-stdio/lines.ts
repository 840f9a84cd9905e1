import { LINE_FEED } from "./wire.js";

/** A line of a stream, or the fault of a line that is too long or not UTF-8. */
export type InputLine = { text: string } | { fault: "too_long" | "not_utf8" };

/** Splits bytes into lines. A line over `maxBytes` is discarded while it arrives and is never held in memory. */
export class LineSplitter {
  readonly #maxBytes: number;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  #pieces: Buffer[] = [];
  #bytes = 0;
  #skipping = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The lines that end in this chunk, without empty ones. */
  *push(chunk: Buffer): Generator<InputLine> {
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, start)) {
      this.#add(chunk.subarray(start, end));
      start = end + 1;
      yield* this.#take();
    }
    this.#add(chunk.subarray(start));
  }

  /** The last line, if the stream ended without a line feed. */
  *end(): Generator<InputLine> {
    yield* this.#take();
  }

  #add(piece: Buffer): void {
    if (this.#skipping || piece.length === 0) return;
    this.#bytes += piece.length;
    if (this.#bytes > this.#maxBytes) {
      this.#skipping = true;
      this.#pieces = [];
    } else this.#pieces.push(piece);
  }

  *#take(): Generator<InputLine> {
    const { length } = this.#pieces;
    const bytes = length === 1 ? this.#pieces[0]! : Buffer.concat(this.#pieces);
    const tooLong = this.#skipping;
    this.#pieces = [];
    this.#bytes = 0;
    this.#skipping = false;
    if (tooLong) {
      yield { fault: "too_long" };
      return;
    }
    let text: string;
    try {
      text = this.#decoder.decode(bytes);
    } catch {
      yield { fault: "not_utf8" };
      return;
    }
    if (text.trim() !== "") yield { text };
  }
}
