import { stripVTControlCharacters } from "node:util";
import { RedactedStream } from "../base/redacted-stream.js";
import type { Redactor } from "../base/redact.js";

/** An escape sequence that may continue after the end of the text, for example a window title. */
// eslint-disable-next-line no-control-regex
const INCOMPLETE_SEQUENCE = /(?:[\u001b\u009b][[\]()#;?\d:<=>!]{0,64}|\u001b\][^\u0007\u001b\u009c]{0,256}|\r)$/;

/** The same pattern for bytes. A prompt that ends this way loses no text. */
// eslint-disable-next-line no-control-regex
const INCOMPLETE_BYTES = /(?:\u001b[[\]()#;?\d:<=>!]{0,64}|\u001b\][^\u0007\u001b]{0,256}|\r)$/;
/** Characters at the end of a text in which an incomplete sequence is searched. The patterns match fewer characters. */
const MAX_SEQUENCE_CHARACTERS = 400;

/**
 * Returns the length in bytes of the complete part of an output that continues. After that part, a character or escape
 * sequence may have started that cannot be decoded yet.
 */
export function countSettledBytes(output: Buffer): number {
  const incompleteBytes =
    INCOMPLETE_BYTES.exec(output.toString("latin1", Math.max(0, output.length - MAX_SEQUENCE_CHARACTERS)))?.[0]
      .length ?? 0;
  const length = output.length - incompleteBytes;
  for (let bytesFromEnd = 1; bytesFromEnd <= Math.min(3, length); bytesFromEnd++) {
    // UTF-8: continuation bytes start with the bits 10, and the first byte gives the number of bytes.
    const byte = output[length - bytesFromEnd] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const neededBytes = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return neededBytes > bytesFromEnd ? length - bytesFromEnd : length;
  }
  return length;
}

/** Converts output, however it is split, to text without colours and secrets. */
export class CleanStream {
  readonly #stream: RedactedStream;
  readonly #decoder = new TextDecoder();
  /** The start of an incomplete escape sequence. */
  #incompleteSequence = "";

  constructor(redactor: Redactor, send: (text: string) => void) {
    this.#stream = new RedactedStream(redactor, send);
  }

  push(chunk: Buffer): void {
    this.#pushText(this.#incompleteSequence + this.#decoder.decode(chunk, { stream: true }));
  }

  /** Ends the stream and passes on the held text. */
  end(): void {
    this.#pushText(`${this.#incompleteSequence}${this.#decoder.decode()}`, true);
    this.#stream.end();
  }

  #pushText(text: string, isLast = false): void {
    this.#incompleteSequence = isLast
      ? ""
      : (INCOMPLETE_SEQUENCE.exec(text.slice(-MAX_SEQUENCE_CHARACTERS))?.[0] ?? "");
    const completeText = text.slice(0, text.length - this.#incompleteSequence.length);
    if (completeText !== "")
      this.#stream.push(stripVTControlCharacters(completeText).replaceAll("\r\n", "\n").replaceAll("\0", "\uFFFD"));
  }
}
