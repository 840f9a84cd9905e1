import type { Redactor } from "./redact.js";

/** Marks omitted text. */
const OMISSION_MARK = "\n[...]\n";

/**
 * Passes on streamed text without secrets, however the text is split. Text that may be the start of a secret is held
 * until the next piece.
 */
export class RedactedStream {
  readonly #redactor: Redactor;
  readonly #send: (text: string) => void;
  /** End of the sent text, as far back as a secret can reach. `#heldText` follows it. */
  #sentTail = "";
  #heldText = "";

  constructor(redactor: Redactor, send: (text: string) => void) {
    this.#redactor = redactor;
    this.#send = send;
  }

  /** Adds the next piece. `isCut`: whether text before this piece was omitted. */
  push(piece: string, isCut = false): void {
    if (isCut) this.#sentTail = this.#heldText = "";
    const { reach } = this.#redactor;
    const text = this.#sentTail + this.#heldText + piece;
    const sentLength = this.#sentTail.length;
    const settledLength = Math.max(sentLength, this.#redactor.settledLength(text));
    const redactedText = this.#redactor.hide(text.slice(0, settledLength));
    const newText = isCut
      ? // At the cut, part of a secret cannot be distinguished from other text.
        OMISSION_MARK + redactedText.slice(reach)
      : redactedText.slice(commonPrefixLength(this.#redactor.hide(this.#sentTail), redactedText));
    this.#sentTail = text.slice(Math.max(0, settledLength - reach), settledLength);
    this.#heldText = text.slice(settledLength);
    if (newText !== "") this.#send(newText);
  }

  /** Ends the stream and passes on the held text, because no further text can complete a secret. */
  end(): void {
    const redactedText = this.#redactor.hide(this.#sentTail + this.#heldText);
    const newText = redactedText.slice(commonPrefixLength(this.#redactor.hide(this.#sentTail), redactedText));
    this.#sentTail = this.#heldText = "";
    if (newText !== "") this.#send(newText);
  }
}

/** Length of the common start of two texts. */
function commonPrefixLength(left: string, right: string): number {
  let length = 0;
  while (length < left.length && left[length] === right[length]) length += 1;
  return length;
}
