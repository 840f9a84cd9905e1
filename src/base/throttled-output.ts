import { endOf } from "./last-characters.js";

/** Text is handed on at most so often, in ms. */
const PAUSE_MS = 100;
/** Of what came meanwhile so many characters: the last. */
const MOST = 64 * 1024;

/** Text that comes in any pieces, handed on at once, then not too often, and no more when it has ended. */
export class Paced {
  readonly #tell: (text: string, isCut: boolean) => void;
  #waiting = "";
  /** Of what waits the begin is gone. */
  #isCut = false;
  #timer: NodeJS.Timeout | undefined;
  #ended = false;

  /** `tell` also hears whether something between this text and the last one was left out. */
  constructor(tell: (text: string, isCut: boolean) => void) {
    this.#tell = tell;
  }

  /** What is no text is no news: it may come of a tool that was written in JavaScript. */
  push(text: unknown): void {
    if (this.#ended || typeof text !== "string" || text === "") return;
    this.#waiting += text;
    // Not at each call, of which there may be very many.
    if (this.#waiting.length > 2 * MOST) this.#shorten();
    if (!this.#timer) this.#next();
  }

  /** What waits is not handed on any more. */
  end(): void {
    this.#ended = true;
    this.#waiting = "";
    clearTimeout(this.#timer);
  }

  #next(): void {
    this.#timer = undefined;
    if (this.#waiting === "") return;
    this.#shorten();
    const [text, isCut] = [this.#waiting, this.#isCut];
    this.#waiting = "";
    this.#isCut = false;
    // Whatever the text comes from keeps the process.
    this.#timer = setTimeout(() => this.#next(), PAUSE_MS).unref();
    this.#tell(text, isCut);
  }

  #shorten(): void {
    if (this.#waiting.length <= MOST) return;
    this.#waiting = endOf(this.#waiting, MOST);
    this.#isCut = true;
  }
}
