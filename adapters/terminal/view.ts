import type { TerminalStore } from "./store.js";
import { renderFrame } from "./frame.js";
import type { Painter } from "./painter.js";
import { paintRow, type Line } from "./spans.js";
import { Transcript } from "./transcript.js";

/** Minimum time from one frame to the next, in ms. */
const FRAME_INTERVAL_MS = 16;
/** Minimum pause after a frame, as a multiple of the duration of the frame, so that other work can run. */
const PAUSE_PER_FRAME = 3;
/** Time between two steps of the animation, in ms. */
const SPIN_INTERVAL_MS = 120;

/** A row as text for the terminal, truncated to `columns`. */
interface PaintedRow {
  readonly columns: number;
  readonly text: string;
}

/**
 * Draws the store whenever it has changed. The first change after a pause is drawn at once. Changes that follow within
 * `FRAME_INTERVAL_MS` share a frame.
 */
export class View {
  readonly #store: TerminalStore;
  readonly #painter: Painter;
  readonly #hasColours: boolean;
  readonly #transcript: Transcript;
  /** Painted text by row. Rows of the transcript are the same objects in each frame. */
  readonly #paintedRows = new WeakMap<Line, PaintedRow>();
  /** Cancels the scheduled frame; undefined if none is scheduled. */
  #cancelFrame: (() => void) | undefined;
  /** Earliest time of the next frame, on the clock of `performance.now()`. */
  #nextFrameAtMs = 0;
  #spinner: NodeJS.Timeout | undefined;
  #tick = 0;

  constructor(store: TerminalStore, painter: Painter, hasColours: boolean) {
    this.#store = store;
    this.#painter = painter;
    this.#hasColours = hasColours;
    this.#transcript = new Transcript(hasColours, () => store.onChanged());
    store.onChanged = () => this.#schedule();
    this.draw();
  }

  /** Draws the current state now. */
  draw(): void {
    this.#cancelFrame?.();
    this.#cancelFrame = undefined;
    const startedAtMs = performance.now();
    const { columns, rows } = this.#painter;
    const { id, pendingPrompt } = this.#store.conversation;
    if (id !== undefined || pendingPrompt) this.#transcript.loadMarkdown();
    const frame = renderFrame(this.#store, this.#transcript, columns, rows, this.#tick);
    this.#painter.paint(
      frame.rows.map((row) => this.#paint(row, columns)),
      frame.cursor,
    );
    const endedAtMs = performance.now();
    this.#nextFrameAtMs = Math.max(
      startedAtMs + FRAME_INTERVAL_MS,
      endedAtMs + (endedAtMs - startedAtMs) * PAUSE_PER_FRAME,
    );
    this.#updateSpinner();
    if (this.#store.scroll.needsOlderMessages) this.#store.loadOlderMessages();
  }

  /** Stops drawing. */
  close(): void {
    this.#store.onChanged = () => undefined;
    this.#cancelFrame?.();
    clearInterval(this.#spinner);
  }

  #schedule(): void {
    if (this.#cancelFrame) return;
    const waitMs = this.#nextFrameAtMs - performance.now();
    if (waitMs <= 0) {
      const immediate = setImmediate(() => this.draw());
      this.#cancelFrame = () => clearImmediate(immediate);
    } else {
      const timer = setTimeout(() => this.draw(), waitMs);
      this.#cancelFrame = () => clearTimeout(timer);
    }
  }

  #updateSpinner(): void {
    if (!this.#store.conversation.isRunning) {
      clearInterval(this.#spinner);
      this.#spinner = undefined;
      return;
    }
    this.#spinner ??= setInterval(() => {
      this.#tick += 1;
      this.#schedule();
    }, SPIN_INTERVAL_MS);
  }

  #paint(row: Line, columns: number): string {
    const cachedRow = this.#paintedRows.get(row);
    if (cachedRow?.columns === columns) return cachedRow.text;
    const text = paintRow(row, columns, this.#hasColours);
    this.#paintedRows.set(row, { columns, text });
    return text;
  }
}
