import { ticks } from "../base/clock.js";
import type { Output } from "./command.js";
import { grouped } from "./table.js";

/** Drawn anew so often, in ms. */
const DRAW_MS = 100;
/** What it is now counts so much: a rate that jumps cannot be read. */
const NEW = 0.3;
const MEASURE_MS = 1_000;
const UNITS = ["B", "kB", "MB", "GB", "TB"] as const;

/** How far the work is. */
export interface Done {
  /** Sessions. */
  count: number;
  bytes: number;
  /** Between 0 and 1, where it can be known. */
  part?: number | undefined;
  /** Sessions in all, where that is known. */
  total?: number | undefined;
}

/** One line on the terminal that says how far the work is; nowhere else, and gone when the work is. */
export class Progress {
  readonly #output: Output;
  readonly #columns: () => number | undefined;
  readonly #begun = ticks();
  #drawnAt = -Infinity;
  #measured = { at: ticks(), bytes: 0 };
  #rate: number | undefined;
  #isDrawn = false;

  /** `isDrawn`: whether it may be drawn at all. */
  constructor(output: Output, isDrawn = true) {
    this.#output = output;
    this.#columns = () => (isDrawn ? output.columns : undefined);
  }

  /** As often as you like; drawn now and then, and only on a terminal. */
  show(done: Done): void {
    const columns = this.#columns();
    const now = ticks();
    if (columns === undefined || now - this.#drawnAt < DRAW_MS) return;
    this.#drawnAt = now;
    this.#measure(done.bytes, now);
    this.#draw(progressLine(done, { seconds: (now - this.#begun) / 1000, rate: this.#rate }, columns));
  }

  /** A line for people, above. */
  tell(line: string): void {
    this.clear();
    this.#output.tell(line);
  }

  /** Take the line away. */
  clear(): void {
    if (this.#isDrawn) this.#draw("");
    this.#isDrawn = false;
  }

  #measure(bytes: number, now: number): void {
    const { at, bytes: before } = this.#measured;
    if (now - at < MEASURE_MS) return;
    const rate = ((bytes - before) * 1000) / (now - at);
    this.#rate = this.#rate === undefined ? rate : this.#rate * (1 - NEW) + rate * NEW;
    this.#measured = { at: now, bytes };
  }

  #draw(line: string): void {
    this.#output.draw(`\r${line}\u001b[K`);
    this.#isDrawn = true;
  }
}

/** What fits into the width: the bar goes first, then the rate, the bytes and the time. */
export function progressLine(
  { count, bytes, part, total }: Done,
  { seconds, rate }: { seconds: number; rate: number | undefined },
  columns: number,
): string {
  const counted = total === undefined ? `${grouped(count)} sessions` : `${grouped(count)}/${grouped(total)} sessions`;
  const left = part !== undefined && part > 0 && seconds > 2 ? `${clock((seconds * (1 - part)) / part)} left` : "";
  const pieces = [counted, left, size(bytes), rate === undefined ? "" : `${size(rate)}/s`];
  // The last column stays empty: some terminals go to the next line with it.
  const room = columns - 1;
  const said: string[] = [];
  for (const piece of pieces) if (piece !== "" && [...said, piece].join("  ").length <= room) said.push(piece);
  const text = said.join("  ");
  const width = Math.min(40, room - text.length - 4);
  if (part === undefined || width < 10) return text;
  const full = Math.round(width * Math.min(1, part));
  return `[${"=".repeat(full)}${" ".repeat(width - full)}]  ${text}`;
}

/** `12.3 MB` */
export function size(bytes: number): string {
  let value = bytes;
  let unit = 0;
  for (; value >= 1000 && unit < UNITS.length - 1; unit++) value /= 1000;
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

/** `1:02:03`, `2:03` */
function clock(seconds: number): string {
  const all = Math.ceil(seconds);
  const two = (value: number): string => String(value).padStart(2, "0");
  const hours = Math.floor(all / 3600);
  const minutes = Math.floor(all / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(all % 60)}` : `${minutes}:${two(all % 60)}`;
}
