/** Takes an event: its name, or an empty one, and its data. */
export type OnEvent = (name: string, data: string) => void;

const SPACE = 0x20;

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

  /** `lines`: each with its end. */
  push(lines: string): void {
    // The second half of a CRLF that came in two.
    let from = this.#afterReturn && lines.startsWith("\n") ? 1 : 0;
    this.#afterReturn = lines.endsWith("\r");
    // Nearly every server ends lines with a line feed alone.
    let back = lines.indexOf("\r");
    while (from < lines.length) {
      let end = lines.indexOf("\n", from);
      if (back !== -1 && back < from) back = lines.indexOf("\r", from);
      if (back !== -1 && (end === -1 || back < end)) end = back;
      this.#take(lines, from, end);
      from = end + 1;
      if (end === back && lines.charCodeAt(from) === 0x0a) from++;
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
    if (this.#data.length > this.#most) throw new RangeError(`an event of more than ${this.#most} characters`);
  }
}

/** Behind the colon; one space belongs to it. */
function valueOf(text: string, from: number, end: number): string {
  return text.slice(text.charCodeAt(from) === SPACE && from < end ? from + 1 : from, end);
}
