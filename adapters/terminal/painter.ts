import { EventEmitter } from "node:events";

const SYNCHRONISED = { begin: "\u001b[?2026h", end: "\u001b[?2026l" };
const HIDE = "\u001b[?25l";
const SHOW = "\u001b[?25h";

/** Where the cursor stands, from 0. */
export interface Place {
  readonly x: number;
  readonly y: number;
}

/**
 * What the renderer writes to in place of the terminal: whole pictures. Of each the terminal is told the rows that are
 * not there yet, at their places and in one piece, so that nothing flickers and nothing can slip.
 */
export class Painter extends EventEmitter {
  readonly isTTY = false;
  readonly #output: NodeJS.WriteStream;
  #rows: string[] = [];
  #cursor = "";
  /** Where the cursor shall be when the next picture is drawn; undefined: nowhere. */
  cursor: Place | undefined;
  #closed = false;

  constructor(output: NodeJS.WriteStream) {
    super();
    this.#output = output;
  }

  get columns(): number {
    return Math.max(1, this.#output.columns || 80);
  }

  get rows(): number {
    return Math.max(1, this.#output.rows || 24);
  }

  /** A picture, row by row. */
  write(picture: string): boolean {
    if (this.#closed) return true;
    const rows = picture.split("\n").slice(0, this.rows);
    let changes = "";
    for (let at = 0; at < Math.max(rows.length, this.#rows.length); at += 1) {
      const row = rows[at] ?? "";
      // Made empty before: behind a row that is full the cursor still stands on its last character.
      if (row !== this.#rows[at]) changes += `\u001b[${at + 1};1H\u001b[0m\u001b[K${row}\u001b[0m`;
    }
    this.#rows = rows;
    const { cursor } = this;
    const placed = cursor ? `\u001b[${cursor.y + 1};${cursor.x + 1}H${SHOW}` : HIDE;
    if (changes === "" && placed === this.#cursor) return true;
    this.#cursor = placed;
    return this.#output.write(
      `${SYNCHRONISED.begin}${changes === "" ? "" : HIDE}${changes}${placed}${SYNCHRONISED.end}`,
    );
  }

  /** Put the cursor there, where nothing else is new. */
  place(cursor: Place | undefined): void {
    this.cursor = cursor;
    this.write(this.#rows.join("\n"));
  }

  /** The terminal shows nothing of it any more. */
  forget(): void {
    this.#rows = [];
    this.#cursor = "";
  }

  /** Nothing more is drawn. */
  close(): void {
    this.#closed = true;
  }
}
