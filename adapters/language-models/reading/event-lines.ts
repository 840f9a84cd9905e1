/** Takes an event: its name, or an empty one, and its data. */
export type OnEvent = (name: string, data: string) => void;

const SPACE = 0x20;
const LF = 0x0a;

/** Puts server-sent events together from whole lines; takes every line end, and a last event that nothing follows. */
export class EventLines {
  readonly #most: number;
  readonly #onEvent: OnEvent;
  #afterReturn = false;
  #name = "";
  #data: string | undefined;

  /** `most`: characters of one event beyond which it is refused with a `RangeError`. */
  constructor(most: number, onEvent: OnEvent) {
    this.#most = most;
    this.#onEvent = onEvent;
  }

  /** `text`: lines, each with its end. */
  push(text: string): void {
    let lines = text;
    if (this.#afterReturn || text.includes("\r")) {
      // The second half of a CRLF that came in two.
      const second = this.#afterReturn && text.startsWith("\n") ? 1 : 0;
      this.#afterReturn = text.endsWith("\r");
      lines = text.slice(second).replace(/\r\n?/g, "\n");
    }
    let from = 0;
    while (from < lines.length) {
      const end = lines.indexOf("\n", from);
      // Nearly every event: one line of data, with the empty line behind it.
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

  /** `rest`: a last line without an end. */
  end(rest: string): void {
    if (rest !== "") this.#take(rest, 0, rest.length);
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
      // As llama.cpp tells what stopped it amid an answer.
      this.#name = "error";
      this.#add(valueOf(text, from + 6, end));
    } else if (end - from <= 5) {
      // A field without a value.
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

/** Behind the colon; one space belongs to it. */
function valueOf(text: string, from: number, end: number): string {
  return text.slice(text.charCodeAt(from) === SPACE && from < end ? from + 1 : from, end);
}
