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

/** Progress line on the terminal. Draws nothing if stderr is not a terminal. */
export class Progress {
  readonly #output: CommandOutput;
  readonly #columns: () => number | undefined;
  readonly #startedAtMs = monotonicMs();
  #drawnAtMs = -Infinity;
  #lastMeasurement = { at: monotonicMs(), bytes: 0 };
  #bytesPerSecond: number | undefined;
  #isDrawn = false;

  /** With `isEnabled` false, nothing is drawn even on a terminal. */
  constructor(output: CommandOutput, isEnabled = true) {
    this.#output = output;
    this.#columns = () => (isEnabled ? output.columns : undefined);
  }

  /** Updates the line. Can be called at any rate; draws every 100 ms at most, and only on a terminal. */
  show(state: ProgressState): void {
    const columns = this.#columns();
    const now = monotonicMs();
    if (columns === undefined || now - this.#drawnAtMs < DRAW_INTERVAL_MS) return;
    this.#drawnAtMs = now;
    this.#updateRate(state.bytes, now);
    this.#draw(
      formatProgressLine(state, { seconds: (now - this.#startedAtMs) / 1000, rate: this.#bytesPerSecond }, columns),
    );
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

  #updateRate(bytes: number, now: number): void {
    const { at, bytes: previousBytes } = this.#lastMeasurement;
    if (now - at < MEASURE_INTERVAL_MS) return;
    const rate = ((bytes - previousBytes) * 1000) / (now - at);
    this.#bytesPerSecond =
      this.#bytesPerSecond === undefined ? rate : this.#bytesPerSecond * (1 - NEW_RATE_WEIGHT) + rate * NEW_RATE_WEIGHT;
    this.#lastMeasurement = { at: now, bytes };
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
export function formatProgressLine(
  { count, bytes, fraction, total }: ProgressState,
  { seconds, rate }: { seconds: number; rate: number | undefined },
  columns: number,
): string {
  const countText =
    total === undefined ? `${formatCount(count)} sessions` : `${formatCount(count)}/${formatCount(total)} sessions`;
  const remainingTime =
    fraction !== undefined && fraction > 0 && seconds > 2
      ? `${formatClock((seconds * (1 - fraction)) / fraction)} left`
      : "";
  const allTexts = [countText, remainingTime, formatBytes(bytes), rate === undefined ? "" : `${formatBytes(rate)}/s`];
  // The last column stays empty, because some terminals wrap after it.
  const maxCharacters = columns - 1;
  const shownTexts: string[] = [];
  for (const candidate of allTexts)
    if (candidate !== "" && [...shownTexts, candidate].join("  ").length <= maxCharacters) shownTexts.push(candidate);
  const text = shownTexts.join("  ");
  const barCharacters = Math.min(40, maxCharacters - text.length - 4);
  if (fraction === undefined || barCharacters < 10) return text;
  const filledCharacters = Math.round(barCharacters * Math.min(1, fraction));
  return `[${"=".repeat(filledCharacters)}${" ".repeat(barCharacters - filledCharacters)}]  ${text}`;
}

/** Formats a size as `12.3 MB`. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unit = 0;
  for (; value >= 1000 && unit < UNITS.length - 1; unit++) value /= 1000;
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** Formats a duration as `1:02:03` or `2:03`. */
function formatClock(seconds: number): string {
  const totalSeconds = Math.ceil(seconds);
  const padTwoDigits = (value: number): string => String(value).padStart(2, "0");
  const hours = Math.floor(totalSeconds / 3600);
  const minutes = Math.floor(totalSeconds / 60) % 60;
  return hours > 0
    ? `${hours}:${padTwoDigits(minutes)}:${padTwoDigits(totalSeconds % 60)}`
    : `${minutes}:${padTwoDigits(totalSeconds % 60)}`;
}
