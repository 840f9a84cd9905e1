import type { Redactor } from "./redact.js";

/** Stands for what was left out. */
const LEFT_OUT = "\n[...]\n";

/** A text that comes in pieces, handed on without secrets, in whatever pieces those come: what may be the begin of one waits. */
export class HiddenStream {
  readonly #redactor: Redactor;
  readonly #tell: (text: string) => void;
  /** What was handed on last, as far as a secret may reach back into it, and what waits. */
  #before = "";
  #open = "";

  constructor(redactor: Redactor, tell: (text: string) => void) {
    this.#redactor = redactor;
    this.#tell = tell;
  }

  /** `isCut`: something before it was left out. */
  push(more: string, isCut = false): void {
    if (isCut) this.#before = this.#open = "";
    const { reach } = this.#redactor;
    const text = this.#before + this.#open + more;
    const told = this.#before.length;
    const settled = Math.max(told, this.#redactor.settled(text));
    const hidden = this.#redactor.hide(text.slice(0, settled));
    const news = isCut
      ? // What lies on the cut cannot be told from other text.
        LEFT_OUT + hidden.slice(reach)
      : hidden.slice(alike(this.#redactor.hide(this.#before), hidden));
    this.#before = text.slice(Math.max(0, settled - reach), settled);
    this.#open = text.slice(settled);
    if (news !== "") this.#tell(news);
  }

  /** Nothing comes any more: what waited is no begin of anything. */
  end(): void {
    const hidden = this.#redactor.hide(this.#before + this.#open);
    const news = hidden.slice(alike(this.#redactor.hide(this.#before), hidden));
    this.#before = this.#open = "";
    if (news !== "") this.#tell(news);
  }
}

/** How much two texts have in common at their begin. */
function alike(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at += 1;
  return at;
}
