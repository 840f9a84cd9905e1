import { monotonicMs } from "../base/clock.js";
import type { CommandOutput } from "./command.js";
import { formatCount } from "./table.js";

/** Interval between two updates of the line. */
const DRAW_INTERVAL_MS = 100;
/** Weight of the latest rate in the moving average, which keeps the display steady. */
const NEW_RATE_WEIGHT = 0.3;
const MEASURE_INTERVAL_MS = 1_000;
const UNITS = ["B", "kB", "MB", "GB", "TB"] as const;

/** Progress of an export or import. */
export interface ProgressState {
  /** Number of finished sessions. */
  count: number;
  bytes: number;
  /** Fraction done, between 0 and 1. Undefined if unknown. */
  fraction?: number | undefined;
  /** Total number of sessions. Undefined if unknown. */
  total?: number | undefined;
}

/** Progress line on the terminal. Nothing is drawn elsewhere, and the line is removed at the end. */
export class Progress {
  readonly #output: CommandOutput;
  readonly #columns: () => number | undefined;
  readonly #begun = monotonicMs();
  #drawnAt = -Infinity;
  #measured = { at: monotonicMs(), bytes: 0 };
  #rate: number | undefined;
  #isDrawn = false;

  /** With `isDrawn` false, nothing is drawn even on a terminal. */
  constructor(output: CommandOutput, isDrawn = true) {
    this.#output = output;
    this.#columns = () => (isDrawn ? output.columns : undefined);
  }

  /** Updates the line. Can be called at any rate; draws every 100 ms at most, and only on a terminal. */
  show(done: ProgressState): void {
    const columns = this.#columns();
    const now = monotonicMs();
    if (columns === undefined || now - this.#drawnAt < DRAW_INTERVAL_MS) return;
    this.#drawnAt = now;
    this.#measure(done.bytes, now);
    this.#draw(progressLine(done, { seconds: (now - this.#begun) / 1000, rate: this.#rate }, columns));
  }

  /** Writes a line above the progress line. */
  report(line: string): void {
    this.clear();
    this.#output.report(line);
  }

  /** Removes the progress line. */
  clear(): void {
    if (this.#isDrawn) this.#draw("");
    this.#isDrawn = false;
  }

  #measure(bytes: number, now: number): void {
    const { at, bytes: before } = this.#measured;
    if (now - at < MEASURE_INTERVAL_MS) return;
    const rate = ((bytes - before) * 1000) / (now - at);
    this.#rate = this.#rate === undefined ? rate : this.#rate * (1 - NEW_RATE_WEIGHT) + rate * NEW_RATE_WEIGHT;
    this.#measured = { at: now, bytes };
  }

  #draw(line: string): void {
    this.#output.draw(`\r${line}\u001b[K`);
    this.#isDrawn = true;
  }
}

/**
 * Formats the progress within the width. If space is short, the bar is dropped first, then the rate, the bytes and the
 * time.
 */
export function progressLine(
  { count, bytes, fraction, total }: ProgressState,
  { seconds, rate }: { seconds: number; rate: number | undefined },
  columns: number,
): string {
  const counted =
    total === undefined ? `${formatCount(count)} sessions` : `${formatCount(count)}/${formatCount(total)} sessions`;
  const remainingTime =
    fraction !== undefined && fraction > 0 && seconds > 2 ? `${clock((seconds * (1 - fraction)) / fraction)} left` : "";
  const pieces = [counted, remainingTime, size(bytes), rate === undefined ? "" : `${size(rate)}/s`];
  // The last column stays empty, because some terminals wrap after it.
  const room = columns - 1;
  const shownPieces: string[] = [];
  for (const piece of pieces)
    if (piece !== "" && [...shownPieces, piece].join("  ").length <= room) shownPieces.push(piece);
  const text = shownPieces.join("  ");
  const width = Math.min(40, room - text.length - 4);
  if (fraction === undefined || width < 10) return text;
  const full = Math.round(width * Math.min(1, fraction));
  return `[${"=".repeat(full)}${" ".repeat(width - full)}]  ${text}`;
}

/** Format: `12.3 MB` */
export function size(bytes: number): string {
  let value = bytes;
  let unit = 0;
  for (; value >= 1000 && unit < UNITS.length - 1; unit++) value /= 1000;
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** Format: `1:02:03` or `2:03` */
function clock(seconds: number): string {
  const all = Math.ceil(seconds);
  const two = (value: number): string => String(value).padStart(2, "0");
  const hours = Math.floor(all / 3600);
  const minutes = Math.floor(all / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(all % 60)}` : `${minutes}:${two(all % 60)}`;
}
