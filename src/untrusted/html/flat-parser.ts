import { Parser } from "htmlparser2";

/** Maximum depth. Deeper elements become siblings; browsers do the same from 512 on. */
const MAX_DEPTH = 512;

/**
 * HTML parser with a bounded element stack.
 *
 * The base parser moves its whole list of open elements with each tag, so nested elements take quadratic time. Beyond
 * `MAX_DEPTH` an element therefore counts as closed when it is opened.
 */
export class FlatParser extends Parser {
  #phase: "opening" | "open" | "closing" = "open";
  /** Whether the current tag is beyond the maximum depth. */
  #isFlat = false;
  /** Number of open elements beyond the maximum depth. */
  #flatElementCount = 0;

  override onopentagname(start: number, end: number): void {
    this.#phase = "opening";
    super.onopentagname(start, end);
    this.#phase = "open";
  }

  override onclosetag(start: number, end: number): void {
    this.#phase = "closing";
    this.#isFlat = false;
    super.onclosetag(start, end);
    this.#phase = "open";
  }

  /** Called by the base parser before it adds an element to its list or searches for it there. */
  override isVoidElement(name: string): boolean {
    if (super.isVoidElement(name)) return true;
    if (this.#phase === "closing") return this.#flatElementCount > 0 && this.#flatElementCount-- > 0;
    if (this.#phase === "opening") {
      this.#isFlat = this.#depth >= MAX_DEPTH;
      if (this.#isFlat) this.#flatElementCount++;
      this.#phase = "open";
    }
    return this.#isFlat;
  }

  /** Number of open elements. The base parser has no public member for it. */
  get #depth(): number {
    return (this as unknown as { stack: readonly string[] }).stack.length;
  }
}
