import { stripVTControlCharacters } from "node:util";
import { HiddenStream } from "../base/hidden-stream.js";
import type { Redactor } from "../base/redact.js";

/** An escape sequence that may go on behind the end; a title of a window is one. */
// eslint-disable-next-line no-control-regex
const OPEN_SEQUENCE = /(?:[\u001b\u009b][[\]()#;?\d:<=>!]{0,64}|\u001b\][^\u0007\u001b\u009c]{0,256}|\r)$/;

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
