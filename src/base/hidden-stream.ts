import type { Redactor } from "./redact.js";

/** Marks omitted text. */
const LEFT_OUT = "\n[...]\n";

/**
 * Passes on streamed text without secrets, however the text is split. Text that may be the start of a secret is held
 * until the next piece.
 */
export class HiddenStream {
  readonly #redactor: Redactor;
  readonly #tell: (text: string) => void;
  /** Text passed on last, as far back as a secret can reach. `#open` is the text that is held. */
  #before = "";
  #open = "";

  constructor(redactor: Redactor, tell: (text: string) => void) {
    this.#redactor = redactor;
    this.#tell = tell;
  }

  /** `isCut`: text before this piece was omitted. */
  push(more: string, isCut = false): void {
    if (isCut) this.#before = this.#open = "";
    const { reach } = this.#redactor;
    const text = this.#before + this.#open + more;
    const told = this.#before.length;
    const settled = Math.max(told, this.#redactor.settled(text));
    const hidden = this.#redactor.hide(text.slice(0, settled));
    const news = isCut
      ? // At the cut, part of a secret cannot be distinguished from other text.
        LEFT_OUT + hidden.slice(reach)
      : hidden.slice(alike(this.#redactor.hide(this.#before), hidden));
    this.#before = text.slice(Math.max(0, settled - reach), settled);
    this.#open = text.slice(settled);
    if (news !== "") this.#tell(news);
  }

  /** Ends the stream. The held text is passed on, because no secret can complete it. */
  end(): void {
    const hidden = this.#redactor.hide(this.#before + this.#open);
    const news = hidden.slice(alike(this.#redactor.hide(this.#before), hidden));
    this.#before = this.#open = "";
    if (news !== "") this.#tell(news);
  }
}

/** Length of the common start of two texts. */
function alike(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at += 1;
  return at;
}
