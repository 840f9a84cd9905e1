import { lastCharacters } from "./last-characters.js";

/** Minimum time between two calls of the listener, in ms. */
const MIN_SEND_INTERVAL_MS = 100;
/** Maximum characters of pending text. Only the last characters of a longer text are stored. */
const MAX_PENDING_CHARACTERS = 64 * 1024;

/**
 * Passes on streamed text: the first text at once, later text at most every `MIN_SEND_INTERVAL_MS`, nothing after the
 * end.
 */
export class ThrottledOutput {
  readonly #send: (text: string, isCut: boolean) => void;
  #pendingText = "";
  /** Whether the start of the pending text was dropped. */
  #isCut = false;
  #timer: NodeJS.Timeout | undefined;
  #hasEnded = false;

  /** @param send Receives the text, and whether text before it was dropped. */
  constructor(send: (text: string, isCut: boolean) => void) {
    this.#send = send;
  }

  /** Adds text. Ignores other values, because a tool written in JavaScript may pass any value. */
  push(text: unknown): void {
    if (this.#hasEnded || typeof text !== "string" || text === "") return;
    this.#pendingText += text;
    // Shortens only above twice the limit, because calls can be very frequent.
    if (this.#pendingText.length > 2 * MAX_PENDING_CHARACTERS) this.#shorten();
    if (!this.#timer) this.#sendPending();
  }

  /** Drops the pending text and ends the stream. */
  end(): void {
    this.#hasEnded = true;
    this.#pendingText = "";
    clearTimeout(this.#timer);
  }

  #sendPending(): void {
    this.#timer = undefined;
    if (this.#pendingText === "") return;
    this.#shorten();
    const [text, isCut] = [this.#pendingText, this.#isCut];
    this.#pendingText = "";
    this.#isCut = false;
    // The timer does not keep the process alive; the source of the text does.
    this.#timer = setTimeout(() => this.#sendPending(), MIN_SEND_INTERVAL_MS).unref();
    this.#send(text, isCut);
  }

  #shorten(): void {
    if (this.#pendingText.length <= MAX_PENDING_CHARACTERS) return;
    this.#pendingText = lastCharacters(this.#pendingText, MAX_PENDING_CHARACTERS);
    this.#isCut = true;
  }
}
