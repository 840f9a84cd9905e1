import { endOf } from "../base/end-of.js";

/** What one call prints is told at most so often, in ms. */
const PAUSE_MS = 100;
/** Of what came meanwhile so many characters are told: the last. */
const MOST = 64 * 1024;

/** What a running call prints: told at once, then not too often, and no more when it has ended. */
export class Progress {
  readonly #tell: (text: string) => void;
  #waiting = "";
  #timer: NodeJS.Timeout | undefined;
  #ended = false;

  constructor(tell: (text: string) => void) {
    this.#tell = tell;
  }

  /** Never throws, whatever a tool written in JavaScript says. */
  print(text: unknown): void {
    if (this.#ended || typeof text !== "string" || text === "") return;
    this.#waiting += text;
    // Not at each call, of which there may be very many.
    if (this.#waiting.length > 2 * MOST) this.#waiting = endOf(this.#waiting, MOST);
    if (!this.#timer) this.#next();
  }

  /** What was not told yet is in the call's output. */
  end(): void {
    this.#ended = true;
    this.#waiting = "";
    clearTimeout(this.#timer);
  }

  #next(): void {
    this.#timer = undefined;
    if (this.#waiting === "") return;
    const text = endOf(this.#waiting, MOST);
    this.#waiting = "";
    // The run itself keeps the process.
    this.#timer = setTimeout(() => this.#next(), PAUSE_MS).unref();
    this.#tell(text);
  }
}
