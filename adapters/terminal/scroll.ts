import type { RowBlock } from "./transcript.js";
import type { Line } from "./spans.js";

/** Scroll position in the messages: follows the end, or stays at a fixed row. */
export class ScrollPosition {
  /** The top visible row, as a row of a block. Undefined: the end is visible and followed. */
  #anchor: { seq: number; row: number } | undefined;
  /** Rows to scroll down, collected since the last frame; negative for up. */
  #pendingRows = 0;
  /** Visible rows in the last frame. */
  #height = 1;
  /** Whether the user scrolled up at the first row. */
  needsOlderMessages = false;

  /** Scrolls down; negative for up. */
  scrollBy(rows: number): void {
    this.#pendingRows += rows;
  }

  /** Scrolls down by pages; negative for up. Adjacent pages share two rows. */
  scrollPages(count: number): void {
    this.scrollBy(count * Math.max(1, this.#height - 2));
  }

  scrollToStart(): void {
    this.#pendingRows = -Infinity;
  }

  scrollToEnd(): void {
    this.#anchor = undefined;
    this.#pendingRows = 0;
  }

  /** Shows a message at the top. */
  scrollToMessage(seq: number): void {
    this.#anchor = { seq, row: 0 };
    this.#pendingRows = 0;
  }

  get isAtEnd(): boolean {
    return this.#anchor === undefined;
  }

  /** Applies the collected scrolling. Returns the visible rows, at most `height`. */
  applyScroll(blocks: readonly RowBlock[], height: number): Line[] {
    const totalRows = blocks.reduce((sum, { rows }) => sum + rows.length, 0);
    const lastTop = Math.max(0, totalRows - height);
    const previousTop = this.#anchor === undefined ? lastTop : this.#findAnchorRow(blocks, lastTop);
    const top = Math.max(0, Math.min(lastTop, previousTop + this.#pendingRows));
    this.#height = height;
    this.needsOlderMessages = top === 0 && this.#pendingRows < 0;
    if (this.#pendingRows !== 0 || this.#anchor) this.#anchor = top >= lastTop ? undefined : findAnchor(blocks, top);
    this.#pendingRows = 0;
    const rows: Line[] = [];
    let blockStart = 0;
    for (const block of blocks) {
      rows.push(...block.rows.slice(Math.max(0, top - blockStart), Math.max(0, top + height - blockStart)));
      blockStart += block.rows.length;
    }
    return rows;
  }

  /** Row of the anchor in all blocks; `lastTop` if its message no longer exists. */
  #findAnchorRow(blocks: readonly RowBlock[], lastTop: number): number {
    let blockStart = 0;
    for (const { seq, rows } of blocks) {
      if (this.#anchor && seq >= this.#anchor.seq)
        return blockStart + (seq === this.#anchor.seq ? Math.min(this.#anchor.row, rows.length - 1) : 0);
      blockStart += rows.length;
    }
    return lastTop;
  }
}

function findAnchor(blocks: readonly RowBlock[], top: number): { seq: number; row: number } | undefined {
  let blockStart = 0;
  for (const { seq, rows } of blocks) {
    // Older messages that load later would change a row number of the whole list: count from the start of a message.
    if (seq > 0 && top < blockStart + rows.length) return { seq, row: top - blockStart };
    blockStart += rows.length;
  }
  return undefined;
}
