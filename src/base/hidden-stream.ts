import type { Redactor } from "./redact.js";

/** Marks omitted text. */
const OMISSION_MARK = "\n[...]\n";

/**
 * Passes on streamed text without secrets, however the text is split. Text that may be the start of a secret is held
 * until the next piece.
 */
export class HiddenStream {
  readonly #redactor: Redactor;
  readonly #send: (text: string) => void;
  /** Text passed on last, as far back as a secret can reach. `#open` is the text that is held. */
  #sentTail = "";
  #heldText = "";

  constructor(redactor: Redactor, tell: (text: string) => void) {
    this.#redactor = redactor;
    this.#send = tell;
  }

  /** `isCut`: text before this piece was omitted. */
  push(piece: string, isCut = false): void {
    if (isCut) this.#sentTail = this.#heldText = "";
    const { reach } = this.#redactor;
    const text = this.#sentTail + this.#heldText + piece;
    const sentLength = this.#sentTail.length;
    const settled = Math.max(sentLength, this.#redactor.settledLength(text));
    const hidden = this.#redactor.hide(text.slice(0, settled));
    const news = isCut
      ? // At the cut, part of a secret cannot be distinguished from other text.
        OMISSION_MARK + hidden.slice(reach)
      : hidden.slice(commonPrefixLength(this.#redactor.hide(this.#sentTail), hidden));
    this.#sentTail = text.slice(Math.max(0, settled - reach), settled);
    this.#heldText = text.slice(settled);
    if (news !== "") this.#send(news);
  }

  /** Ends the stream. The held text is passed on, because no secret can complete it. */
  end(): void {
    const hidden = this.#redactor.hide(this.#sentTail + this.#heldText);
    const news = hidden.slice(commonPrefixLength(this.#redactor.hide(this.#sentTail), hidden));
    this.#sentTail = this.#heldText = "";
    if (news !== "") this.#send(news);
  }
}

/** Length of the common start of two texts. */
function commonPrefixLength(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at += 1;
  return at;
}
