import type { Block } from "./transcript.js";
import type { Line } from "./spans.js";

/** Rows of what was said that are in sight, wherever in it: at its end, or where somebody looks. */
export class Scroll {
  /** The row at the top of what is seen: a row of a block; undefined: the end is seen, and followed. */
  #anchor: { seq: number; row: number } | undefined;
  /** What was asked for since the last look. */
  #by = 0;
  #height = 1;
  /** Somebody looked for what is before the first row. */
  wantsOlder = false;

  by(rows: number): void {
    this.#by += rows;
  }

  pages(count: number): void {
    this.by(count * Math.max(1, this.#height - 2));
  }

  toBegin(): void {
    this.#by = -Infinity;
  }

  toEnd(): void {
    this.#anchor = undefined;
    this.#by = 0;
  }

  get isAtEnd(): boolean {
    return this.#anchor === undefined;
  }

  /** The rows in sight, `height` of them at most. */
  look(blocks: readonly Block[], height: number): Line[] {
    const total = blocks.reduce((sum, { rows }) => sum + rows.length, 0);
    const last = Math.max(0, total - height);
    const before = this.#anchor === undefined ? last : this.#place(blocks, last);
    const top = Math.max(0, Math.min(last, before + this.#by));
    this.#height = height;
    this.wantsOlder = top === 0 && this.#by < 0;
    if (this.#by !== 0 || this.#anchor) this.#anchor = top >= last ? undefined : anchorAt(blocks, top);
    this.#by = 0;
    const rows: Line[] = [];
    let at = 0;
    for (const block of blocks) {
      rows.push(...block.rows.slice(Math.max(0, top - at), Math.max(0, top + height - at)));
      at += block.rows.length;
    }
    return rows;
  }

  #place(blocks: readonly Block[], last: number): number {
    let at = 0;
    for (const { seq, rows } of blocks) {
      if (this.#anchor && seq >= this.#anchor.seq)
        return at + (seq === this.#anchor.seq ? Math.min(this.#anchor.row, rows.length - 1) : 0);
      at += rows.length;
    }
    return last;
  }
}

function anchorAt(blocks: readonly Block[], top: number): { seq: number; row: number } | undefined {
  let at = 0;
  for (const { seq, rows } of blocks) {
    // What stands before the first message goes when others come before it: rows are counted from a message.
    if (seq > 0 && top < at + rows.length) return { seq, row: top - at };
    at += rows.length;
  }
  return undefined;
}
