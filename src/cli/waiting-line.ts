import { monotonicMs } from "../base/clock.js";
import type { CommandOutput } from "./command.js";
import { formatCell, truncate } from "./table.js";

/** Delay before the line appears. Shorter waits show nothing. */
const SHOW_DELAY_MS = 300;
/** Interval between two updates of the duration. */
const DRAW_INTERVAL_MS = 1_000;

/**
 * A line on the terminal that shows the reason and the duration of a wait. Draws nothing if stderr is not a terminal.
 */
export class WaitingLine {
  readonly #output: Pick<CommandOutput, "columns" | "draw" | "report">;
  #timer: NodeJS.Timeout | undefined;
  #isDrawn = false;

  constructor(output: Pick<CommandOutput, "columns" | "draw" | "report">) {
    this.#output = output;
  }

  /** Shows `text` after `SHOW_DELAY_MS`, instead of the previous text. */
  show(text: string): void {
    this.clear();
    if (this.#output.columns === undefined) return;
    const startedAtMs = monotonicMs();
    const draw = (): void => {
      const seconds = Math.floor((monotonicMs() - startedAtMs) / 1000);
      const line = `${formatCell(text)}${seconds > 0 ? ` (${seconds} s)` : ""}`;
      this.#output.draw(`\r${truncate(line, (this.#output.columns ?? 80) - 1)}\u001b[K`);
      this.#isDrawn = true;
      this.#timer = setTimeout(draw, DRAW_INTERVAL_MS).unref();
    };
    this.#timer = setTimeout(draw, SHOW_DELAY_MS).unref();
  }

  /** Writes a line above the waiting line. */
  report(line: string): void {
    if (this.#isDrawn) this.#output.draw("\r\u001b[K");
    this.#output.report(line);
  }

  /** Removes the line. */
  clear(): void {
    clearTimeout(this.#timer);
    if (this.#isDrawn) this.#output.draw("\r\u001b[K");
    this.#isDrawn = false;
  }
}
