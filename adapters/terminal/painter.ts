const SYNCHRONISED_UPDATE = { begin: "\u001b[?2026h", end: "\u001b[?2026l" };
/** Size of a terminal that reports none. */
const [DEFAULT_COLUMNS, DEFAULT_ROWS] = [80, 24];
const HIDE_CURSOR = "\u001b[?25l";
const SHOW_CURSOR = "\u001b[?25h";

/** Column and row of the cursor, from 0. */
export interface CursorPosition {
  readonly x: number;
  readonly y: number;
}

/**
 * Paints frames on the terminal. Writes only the rows that differ from the previous frame, each at its absolute
 * position and all in one synchronised write. A frame therefore neither flickers nor scrolls the screen.
 */
export class Painter {
  readonly #output: NodeJS.WriteStream;
  /** Whether another program has the screen: nothing is painted. */
  isPaused = false;
  #paintedRows: readonly string[] = [];
  #cursorSequence = "";

  constructor(output: NodeJS.WriteStream) {
    this.#output = output;
  }

  get columns(): number {
    return Math.max(1, this.#output.columns || DEFAULT_COLUMNS);
  }

  get rows(): number {
    return Math.max(1, this.#output.rows || DEFAULT_ROWS);
  }

  /** Paints one frame. An undefined `cursor` hides the cursor. */
  paint(rows: readonly string[], cursor: CursorPosition | undefined): void {
    if (this.isPaused) return;
    let changes = "";
    for (let y = 0; y < Math.max(rows.length, this.#paintedRows.length); y += 1) {
      const row = rows[y] ?? "";
      // Erase before writing: after a full row the cursor is still on the last character of the row.
      if (row !== this.#paintedRows[y]) changes += `\u001b[${y + 1};1H\u001b[0m\u001b[K${row}\u001b[0m`;
    }
    this.#paintedRows = rows;
    const cursorSequence = cursor ? `\u001b[${cursor.y + 1};${cursor.x + 1}H${SHOW_CURSOR}` : HIDE_CURSOR;
    if (changes === "" && cursorSequence === this.#cursorSequence) return;
    this.#cursorSequence = cursorSequence;
    this.#output.write(
      `${SYNCHRONISED_UPDATE.begin}${changes === "" ? "" : HIDE_CURSOR}${changes}${cursorSequence}${SYNCHRONISED_UPDATE.end}`,
    );
  }

  /** Call this after the screen was cleared or resized: the next frame paints every row. */
  invalidate(): void {
    this.#paintedRows = [];
    this.#cursorSequence = "";
  }
}
