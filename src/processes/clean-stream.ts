import { stripVTControlCharacters } from "node:util";
import { HiddenStream } from "../base/hidden-stream.js";
import type { Redactor } from "../base/redact.js";

/** An escape sequence that may go on behind the end; a title of a window is one. */
// eslint-disable-next-line no-control-regex
const OPEN_SEQUENCE = /(?:[\u001b\u009b][[\]()#;?\d:<=>!]{0,64}|\u001b\][^\u0007\u001b\u009c]{0,256}|\r)$/;

/** As above, in bytes. A prompt that ends so says nothing by it. */
// eslint-disable-next-line no-control-regex
const OPEN_BYTES = /(?:\u001b[[\]()#;?\d:<=>!]{0,64}|\u001b\][^\u0007\u001b]{0,256}|\r)$/;

/**
 * Of output that goes on: length in bytes of what stands by itself. A character or an escape sequence may have begun behind
 * it, of which nothing could be made without what follows.
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

/** All that a command prints, as text without colours and without secrets, in whatever pieces it comes. */
export class CleanStream {
  readonly #stream: HiddenStream;
  readonly #decoder = new TextDecoder();
  /** An escape sequence that is not whole yet. */
  #sequence = "";

  constructor(redactor: Redactor, tell: (text: string) => void) {
    this.#stream = new HiddenStream(redactor, tell);
  }

  push(chunk: Buffer): void {
    this.#clean(this.#sequence + this.#decoder.decode(chunk, { stream: true }));
  }

  /** Nothing comes any more: what waited for more is told. */
  end(): void {
    this.#clean(`${this.#sequence}${this.#decoder.decode()}`, true);
    this.#stream.end();
  }

  #clean(text: string, isLast = false): void {
    this.#sequence = isLast ? "" : (OPEN_SEQUENCE.exec(text.slice(-400))?.[0] ?? "");
    const whole = text.slice(0, text.length - this.#sequence.length);
    if (whole !== "")
      this.#stream.push(stripVTControlCharacters(whole).replaceAll("\r\n", "\n").replaceAll("\0", "\uFFFD"));
  }
}
