/** A server-sent event, or a comment: then `comment` is set and the other fields are empty. */
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
  #endedWithReturn = false;
  #type = "";
  #data: string | undefined;
  #id: string | undefined;

  /** Returns the events that end within this piece. */
  push(piece: string): ServerSentEvent[] {
    if (piece === "") return [];
    const text = this.#endedWithReturn && piece.startsWith("\n") ? piece.slice(1) : piece;
    this.#endedWithReturn = piece.endsWith("\r");
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
    const colon = line.indexOf(":");
    if (colon === 0) return { type: "", data: "", id: undefined, comment: line.slice(1).trim() };
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "event") this.#type = value;
    if (name === "id") this.#id = value;
    if (name === "data") this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
    return undefined;
  }
}
