/**
 * Joins surrogate pairs that a provider splits over two pieces of streamed text, because strict JSON readers refuse a
 * half of a pair.
 */
export class WholePairs {
  #part = "";
  #firstHalf = "";

  /** Returns the text to send now. The first half of a pair at its end is sent with the next piece of the same part. */
  add(part: string, piece: string): string {
    const text = this.#part === part ? this.#firstHalf + piece : piece;
    const lastUnit = text.charCodeAt(text.length - 1);
    const endsWithHalf = lastUnit >= 0xd800 && lastUnit <= 0xdbff;
    this.#part = part;
    this.#firstHalf = endsWithHalf ? text.slice(-1) : "";
    return endsWithHalf ? text.slice(0, -1) : text;
  }
}
