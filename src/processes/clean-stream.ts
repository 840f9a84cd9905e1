import { stripVTControlCharacters } from "node:util";
import { HiddenStream } from "../base/hidden-stream.js";
import type { Redactor } from "../base/redact.js";

/** An escape sequence that may continue after the end of the text, for example a window title. */
// eslint-disable-next-line no-control-regex
const OPEN_SEQUENCE = /(?:[\u001b\u009b][[\]()#;?\d:<=>!]{0,64}|\u001b\][^\u0007\u001b\u009c]{0,256}|\r)$/;

/** The same pattern for bytes. A prompt that ends this way loses no text. */
// eslint-disable-next-line no-control-regex
const OPEN_BYTES = /(?:\u001b[[\]()#;?\d:<=>!]{0,64}|\u001b\][^\u0007\u001b]{0,256}|\r)$/;

/**
 * Length in bytes of the complete part of an output that continues. After it, a character or escape sequence may have
 * started that cannot be decoded yet.
 */
export function settledBytes(output: Buffer): number {
  const open = OPEN_BYTES.exec(output.toString("latin1", Math.max(0, output.length - 400)))?.[0].length ?? 0;
  const length = output.length - open;
  for (let back = 1; back <= Math.min(3, length); back++) {
    const byte = output[length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needs > back ? length - back : length;
  }
  return length;
}

/** Converts output, however it is split, to text without colours and secrets. */
export class CleanStream {
  readonly #stream: HiddenStream;
  readonly #decoder = new TextDecoder();
  /** The start of an incomplete escape sequence. */
  #sequence = "";

  constructor(redactor: Redactor, tell: (text: string) => void) {
    this.#stream = new HiddenStream(redactor, tell);
  }

  push(chunk: Buffer): void {
    this.#clean(this.#sequence + this.#decoder.decode(chunk, { stream: true }));
  }

  /** Ends the stream and passes on the held text. */
  end(): void {
    this.#clean(`${this.#sequence}${this.#decoder.decode()}`, true);
    this.#stream.end();
  }

  #clean(text: string, isLast = false): void {
    this.#sequence = isLast ? "" : (OPEN_SEQUENCE.exec(text.slice(-400))?.[0] ?? "");
    const completeText = text.slice(0, text.length - this.#sequence.length);
    if (completeText !== "")
      this.#stream.push(stripVTControlCharacters(completeText).replaceAll("\r\n", "\n").replaceAll("\0", "\uFFFD"));
  }
}
