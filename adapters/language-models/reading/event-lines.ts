/** Handles an event by its name, which may be `""`, and its data. */
export type OnEvent = (name: string, data: string) => void;

const SPACE = 0x20;
const LF = 0x0a;

/** Parses server-sent events from complete lines. Accepts all line ends, and a last event without an empty line. */
export class EventLines {
  readonly #most: number;
  readonly #onEvent: OnEvent;
  #afterReturn = false;
  #name = "";
  #data: string | undefined;

  /** `most`: maximum characters of an event; a longer one throws `RangeError`. */
  constructor(most: number, onEvent: OnEvent) {
    this.#most = most;
    this.#onEvent = onEvent;
  }

  /** `text`: complete lines with their line ends. */
  push(text: string): void {
    let lines = text;
    if (this.#afterReturn || text.includes("\r")) {
      // The LF of a CRLF that was split between two texts.
      const second = this.#afterReturn && text.startsWith("\n") ? 1 : 0;
      this.#afterReturn = text.endsWith("\r");
      lines = text.slice(second).replace(/\r\n?/g, "\n");
    }
    let from = 0;
    while (from < lines.length) {
      const end = lines.indexOf("\n", from);
      // Fast path for nearly every event: one line of data, followed by the empty line.
      if (lines.charCodeAt(end + 1) === LF && this.#data === undefined && lines.startsWith("data: ", from)) {
        if (end - from > this.#most) this.#refuse();
        this.#onEvent(this.#name, lines.slice(from + 6, end));
        this.#name = "";
        from = end + 2;
      } else {
        this.#take(lines, from, end);
        from = end + 1;
      }
    }
  }

  /** Handles the end of the stream; `lastLine` has no line end. */
  end(lastLine: string): void {
    if (lastLine !== "") this.#take(lastLine, 0, lastLine.length);
    this.#take("", 0, 0);
  }

  #take(text: string, from: number, end: number): void {
    if (from === end) {
      if (this.#data !== undefined) this.#onEvent(this.#name, this.#data);
      this.#name = "";
      this.#data = undefined;
      return;
    }
    if (text.startsWith("data:", from)) this.#add(valueOf(text, from + 5, end));
    else if (text.startsWith("event:", from)) this.#name = valueOf(text, from + 6, end);
    else if (text.startsWith("error:", from)) {
      // llama.cpp reports an error within an answer this way.
      this.#name = "error";
      this.#add(valueOf(text, from + 6, end));
    } else if (end - from <= 5) {
      // A field without a colon and value.
      const field = text.slice(from, end);
      if (field === "event") this.#name = "";
      else if (field === "data" || field === "error") this.#add("");
      if (field === "error") this.#name = "error";
    }
  }

  #add(value: string): void {
    this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
    if (this.#data.length > this.#most) this.#refuse();
  }

  #refuse(): never {
    throw new RangeError(`an event of more than ${this.#most} characters`);
  }
}

/** The value after the colon and one optional space. */
function valueOf(text: string, from: number, end: number): string {
  return text.slice(text.charCodeAt(from) === SPACE && from < end ? from + 1 : from, end);
}
