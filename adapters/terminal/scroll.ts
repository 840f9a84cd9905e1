import type { RowBlock } from "./transcript.js";
import type { Line } from "./spans.js";

/** Scroll position in the messages: at the end, which it follows, or at a fixed row. */
export class Scroll {
  /** The top visible row, as a row of a block. Undefined: the end is visible and followed. */
  #anchor: { seq: number; row: number } | undefined;
  /** Rows to scroll, collected since the last frame. */
  #by = 0;
  #height = 1;
  /** Whether the user scrolled up at the first row. */
  wantsOlder = false;

  by(rows: number): void {
    this.#by += rows;
  }

  pages(count: number): void {
    this.by(count * Math.max(1, this.#height - 2));
  }

  toStart(): void {
    this.#by = -Infinity;
  }

  toEnd(): void {
    this.#anchor = undefined;
    this.#by = 0;
  }

  get isAtEnd(): boolean {
    return this.#anchor === undefined;
  }

  /** The visible rows, at most `height`. */
  visibleRows(blocks: readonly RowBlock[], height: number): Line[] {
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

  #place(blocks: readonly RowBlock[], last: number): number {
    let at = 0;
    for (const { seq, rows } of blocks) {
      if (this.#anchor && seq >= this.#anchor.seq)
        return at + (seq === this.#anchor.seq ? Math.min(this.#anchor.row, rows.length - 1) : 0);
      at += rows.length;
    }
    return last;
  }
}

function anchorAt(blocks: readonly RowBlock[], top: number): { seq: number; row: number } | undefined {
  let at = 0;
  for (const { seq, rows } of blocks) {
    // Rows before the first message change when older messages load. The anchor therefore counts from a message.
    if (seq > 0 && top < at + rows.length) return { seq, row: top - at };
    at += rows.length;
  }
  return undefined;
}
