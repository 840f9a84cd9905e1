/**
 * A server-sent event or a comment. `type` is `""` and `id` is undefined if the event does not set them. For a comment,
 * `comment` is set and the other fields are empty.
 */
export interface ServerSentEvent {
  type: string;
  data: string;
  id: string | undefined;
  comment?: string;
}

/**
 * Parses server-sent events from text in arbitrary pieces. Lines end with LF, CR or CRLF, also if a piece ends between
 * CR and LF. An incomplete event at the end of the stream is dropped.
 */
export class EventParser {
  #incompleteLine = "";
  #endedWithCarriageReturn = false;
  #type = "";
  #data: string | undefined;
  #id: string | undefined;

  /** Returns the events and comments that end within this piece. */
  push(piece: string): ServerSentEvent[] {
    if (piece === "") return [];
    const text = this.#endedWithCarriageReturn && piece.startsWith("\n") ? piece.slice(1) : piece;
    this.#endedWithCarriageReturn = piece.endsWith("\r");
    const lines = text.split(/\r\n|\r|\n/);
    // Join the remainder of the previous piece before parsing: each line is parsed once, however long it is.
    lines[0] = this.#incompleteLine + (lines[0] ?? "");
    this.#incompleteLine = lines.pop() ?? "";
    const events: ServerSentEvent[] = [];
    for (const line of lines) {
      const event = this.#parseLine(line);
      if (event) events.push(event);
    }
    return events;
  }

  #parseLine(line: string): ServerSentEvent | undefined {
    if (line === "") {
      const event = this.#data === undefined ? undefined : { type: this.#type, data: this.#data, id: this.#id };
      this.#type = "";
      this.#data = this.#id = undefined;
      return event;
    }
    const colonIndex = line.indexOf(":");
    if (colonIndex === 0) return { type: "", data: "", id: undefined, comment: line.slice(1).trim() };
    const name = colonIndex < 0 ? line : line.slice(0, colonIndex);
    const value = colonIndex < 0 ? "" : line.slice(line[colonIndex + 1] === " " ? colonIndex + 2 : colonIndex + 1);
    if (name === "event") this.#type = value;
    if (name === "id") this.#id = value;
    if (name === "data") this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
    return undefined;
  }
}
