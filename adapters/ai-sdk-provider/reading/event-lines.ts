/** One server-sent event. */
export interface ServerEvent {
  readonly name: string;
  readonly data: string;
}

/** Puts server-sent events together from pieces of any size; takes every line end, and a last event that nothing follows. */
export class EventLines {
  readonly #most: number;
  #line = "";
  #afterReturn = false;
  #name = "";
  #data: string[] = [];
  #length = 0;

  /** `most`: characters of one event beyond which it is refused with a `RangeError`. */
  constructor(most: number) {
    this.#most = most;
  }

  push(piece: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    let from = this.#afterReturn && piece.startsWith("\n") ? 1 : 0;
    if (piece !== "") this.#afterReturn = false;
    // Nearly every server ends lines with a line feed alone.
    const returns = piece.includes("\r");
    for (;;) {
      let end = piece.indexOf("\n", from);
      if (returns) {
        const back = piece.indexOf("\r", from);
        if (back !== -1 && (end === -1 || back < end)) end = back;
      }
      if (end === -1) break;
      this.#take(this.#line + piece.slice(from, end), events);
      this.#line = "";
      from = end + 1;
      if (piece[end] !== "\r") continue;
      if (from === piece.length) this.#afterReturn = true;
      else if (piece[from] === "\n") from++;
    }
    if (from < piece.length) this.#line += from === 0 ? piece : piece.slice(from);
    this.#check(this.#line.length);
    return events;
  }

  end(): ServerEvent[] {
    const events: ServerEvent[] = [];
    if (this.#line !== "") this.#take(this.#line, events);
    this.#line = "";
    this.#take("", events);
    return events;
  }

  #take(line: string, events: ServerEvent[]): void {
    if (line === "") {
      if (this.#data.length > 0) events.push({ name: this.#name, data: this.#data.join("\n") });
      this.#name = "";
      this.#data = [];
      this.#length = 0;
      return;
    }
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    if (field !== "data" && field !== "event" && field !== "error") return;
    const value = colon === -1 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") {
      this.#name = value;
      return;
    }
    // As llama.cpp tells what stopped it amid an answer.
    if (field === "error") this.#name = "error";
    this.#length += value.length;
    this.#check(0);
    this.#data.push(value);
  }

  #check(more: number): void {
    if (this.#length + more > this.#most) throw new RangeError(`an event of more than ${this.#most} characters`);
  }
}
