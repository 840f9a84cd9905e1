import { ticks } from "../base/clock.js";
import type { Output } from "./command.js";
import { cell, cut } from "./table.js";

/** What is quicker than that needs no line, in ms. */
const SOON_MS = 300;
const DRAW_MS = 1_000;

/** One line on the terminal that says what is waited for, and for how long; nowhere else, and gone when it is there. */
export class Waiting {
  readonly #output: Pick<Output, "columns" | "draw" | "tell">;
  #timer: NodeJS.Timeout | undefined;
  #isDrawn = false;

  constructor(output: Pick<Output, "columns" | "draw" | "tell">) {
    this.#output = output;
  }

  /** In place of what was said before. */
  show(what: string): void {
    this.clear();
    if (this.#output.columns === undefined) return;
    const begun = ticks();
    const draw = (): void => {
      const seconds = Math.floor((ticks() - begun) / 1000);
      const line = `${cell(what)}${seconds > 0 ? ` (${seconds} s)` : ""}`;
      this.#output.draw(`\r${cut(line, (this.#output.columns ?? 80) - 1)}\u001b[K`);
      this.#isDrawn = true;
      this.#timer = setTimeout(draw, DRAW_MS).unref();
    };
    this.#timer = setTimeout(draw, SOON_MS).unref();
  }

  /** A line for people, above. */
  tell(line: string): void {
    if (this.#isDrawn) this.#output.draw("\r\u001b[K");
    this.#output.tell(line);
  }

  clear(): void {
    clearTimeout(this.#timer);
    if (this.#isDrawn) this.#output.draw("\r\u001b[K");
    this.#isDrawn = false;
  }
}
