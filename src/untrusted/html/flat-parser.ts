import { Parser } from "htmlparser2";

/** Deeper elements stand beside each other; browsers do the same from 512 on. */
const MAX_DEPTH = 512;

/**
 * The parser keeps its open elements in a list that it moves whole with each tag, so a page of nested elements costs the
 * square of its length. Below a depth that no reader misses, an element counts as closed when it is opened.
 */
export class FlatParser extends Parser {
  #phase: "opening" | "open" | "closing" = "open";
  /** Whether the tag at hand is one of those. */
  #isFlat = false;
  /** How many of them were opened, whose closing tags are still to come. */
  #flat = 0;

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

  /** What the parser asks before it puts an element on its list, or looks for it there. */
  override isVoidElement(name: string): boolean {
    if (super.isVoidElement(name)) return true;
    if (this.#phase === "closing") return this.#flat > 0 && this.#flat-- > 0;
    if (this.#phase === "opening") {
      this.#isFlat = this.#depth >= MAX_DEPTH;
      if (this.#isFlat) this.#flat++;
      this.#phase = "open";
    }
    return this.#isFlat;
  }

  get #depth(): number {
    return (this as unknown as { stack: readonly string[] }).stack.length;
  }
}
