import { monotonicMs } from "../base/clock.js";
import type { CommandOutput } from "./command.js";
import { formatCount } from "./table.js";

/** Minimum interval between two updates of the line. */
const DRAW_INTERVAL_MS = 100;
/** Weight of the latest rate in the moving average, which keeps the display steady. */
const NEW_RATE_WEIGHT = 0.3;
const MEASURE_INTERVAL_MS = 1_000;
/** Earlier estimates of the remaining time are too inaccurate to show. */
const MIN_ESTIMATE_SECONDS = 2;
const MIN_BAR_CHARACTERS = 10;
const MAX_BAR_CHARACTERS = 40;
/** Characters around the bar: two brackets and two spaces. */
const BAR_FRAME_CHARACTERS = 4;
const UNITS = ["B", "kB", "MB", "GB", "TB"] as const;

/** Progress of an export or import. */
export interface ProgressState {
  /** Number of finished sessions. */
  count: number;
  /** Number of written or read bytes. */
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
  #lastMeasurement = { atMs: monotonicMs(), bytes: 0 };
  #bytesPerSecond: number | undefined;
  #isDrawn = false;

  /** With `isEnabled` false, nothing is drawn even on a terminal. */
  constructor(output: CommandOutput, isEnabled = true) {
    this.#output = output;
    this.#columns = () => (isEnabled ? output.columns : undefined);
  }

  /** Updates the line, at most once per `DRAW_INTERVAL_MS`, and only on a terminal. */
  show(state: ProgressState): void {
    const columns = this.#columns();
    const nowMs = monotonicMs();
    if (columns === undefined || nowMs - this.#drawnAtMs < DRAW_INTERVAL_MS) return;
    this.#drawnAtMs = nowMs;
    this.#updateRate(state.bytes, nowMs);
    this.#draw(
      formatProgressLine(
        state,
        { elapsedSeconds: (nowMs - this.#startedAtMs) / 1000, bytesPerSecond: this.#bytesPerSecond },
        columns,
      ),
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

  #updateRate(bytes: number, nowMs: number): void {
    const { atMs, bytes: previousBytes } = this.#lastMeasurement;
    if (nowMs - atMs < MEASURE_INTERVAL_MS) return;
    const rate = ((bytes - previousBytes) * 1000) / (nowMs - atMs);
    this.#bytesPerSecond =
      this.#bytesPerSecond === undefined ? rate : this.#bytesPerSecond * (1 - NEW_RATE_WEIGHT) + rate * NEW_RATE_WEIGHT;
    this.#lastMeasurement = { atMs: nowMs, bytes };
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
  { elapsedSeconds, bytesPerSecond }: { elapsedSeconds: number; bytesPerSecond: number | undefined },
  columns: number,
): string {
  const countText =
    total === undefined ? `${formatCount(count)} sessions` : `${formatCount(count)}/${formatCount(total)} sessions`;
  const remainingTime =
    fraction !== undefined && fraction > 0 && elapsedSeconds > MIN_ESTIMATE_SECONDS
      ? `${formatClock((elapsedSeconds * (1 - fraction)) / fraction)} left`
      : "";
  const allTexts = [
    countText,
    remainingTime,
    formatBytes(bytes),
    bytesPerSecond === undefined ? "" : `${formatBytes(bytesPerSecond)}/s`,
  ];
  // The last column stays empty, because some terminals wrap after it.
  const maxCharacters = columns - 1;
  const shownTexts: string[] = [];
  for (const candidate of allTexts)
    if (candidate !== "" && [...shownTexts, candidate].join("  ").length <= maxCharacters) shownTexts.push(candidate);
  const text = shownTexts.join("  ");
  const barCharacters = Math.min(MAX_BAR_CHARACTERS, maxCharacters - text.length - BAR_FRAME_CHARACTERS);
  if (fraction === undefined || barCharacters < MIN_BAR_CHARACTERS) return text;
  const filledCharacters = Math.round(barCharacters * Math.min(1, fraction));
  return `[${"=".repeat(filledCharacters)}${" ".repeat(barCharacters - filledCharacters)}]  ${text}`;
}

/** Formats a size as `12.3 MB`. */
export function formatBytes(bytes: number): string {
  let value = bytes;
  let unitIndex = 0;
  for (; value >= 1000 && unitIndex < UNITS.length - 1; unitIndex++) value /= 1000;
  return `${unitIndex === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unitIndex]}`;
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
