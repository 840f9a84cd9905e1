/** Called with the name (or `""`) and the data of each event. */
export type OnEvent = (name: string, data: string) => void;

const SPACE = 0x20;
const LF = 0x0a;

/** Parses server-sent events from complete lines. Accepts all line ends, and a last event without an empty line. */
export class AnswerEventParser {
  readonly #maxCharacters: number;
  readonly #onEvent: OnEvent;
  #isAfterReturn = false;
  #name = "";
  #data: string | undefined;

  /** A method that reads an event with more than `maxCharacters` throws `RangeError`. */
  constructor(maxCharacters: number, onEvent: OnEvent) {
    this.#maxCharacters = maxCharacters;
    this.#onEvent = onEvent;
  }

  /** `text`: complete lines with their line ends. */
  push(text: string): void {
    let lines = text;
    if (this.#isAfterReturn || text.includes("\r")) {
      // The LF of a CRLF that was split between two texts.
      const start = this.#isAfterReturn && text.startsWith("\n") ? 1 : 0;
      this.#isAfterReturn = text.endsWith("\r");
      lines = text.slice(start).replace(/\r\n?/g, "\n");
    }
    let from = 0;
    while (from < lines.length) {
      const end = lines.indexOf("\n", from);
      // Fast path for nearly every event: one line of data, followed by the empty line.
      if (lines.charCodeAt(end + 1) === LF && this.#data === undefined && lines.startsWith("data: ", from)) {
        if (end - from > this.#maxCharacters) this.#throwTooLong();
        this.#onEvent(this.#name, lines.slice(from + 6, end));
        this.#name = "";
        from = end + 2;
      } else {
        this.#readLine(lines, from, end);
        from = end + 1;
      }
    }
  }

  /** Handles the end of the stream; `lastLine` has no line end. */
  end(lastLine: string): void {
    if (lastLine !== "") this.#readLine(lastLine, 0, lastLine.length);
    this.#readLine("", 0, 0);
  }

  #readLine(text: string, from: number, end: number): void {
    if (from === end) {
      if (this.#data !== undefined) this.#onEvent(this.#name, this.#data);
      this.#name = "";
      this.#data = undefined;
      return;
    }
    if (text.startsWith("data:", from)) this.#addData(readValue(text, from + 5, end));
    else if (text.startsWith("event:", from)) this.#name = readValue(text, from + 6, end);
    else if (text.startsWith("error:", from)) {
      // llama.cpp reports an error within an answer this way.
      this.#name = "error";
      this.#addData(readValue(text, from + 6, end));
    } else if (end - from <= "event".length) {
      // A field without a colon and value.
      const field = text.slice(from, end);
      if (field === "event") this.#name = "";
      else if (field === "data" || field === "error") this.#addData("");
      if (field === "error") this.#name = "error";
    }
  }

  #addData(value: string): void {
    this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
    if (this.#data.length > this.#maxCharacters) this.#throwTooLong();
  }

  #throwTooLong(): never {
    throw new RangeError(`an event of more than ${this.#maxCharacters} characters`);
  }
}

/** The value after the colon and one optional space. */
function readValue(text: string, from: number, end: number): string {
  return text.slice(text.charCodeAt(from) === SPACE && from < end ? from + 1 : from, end);
}
