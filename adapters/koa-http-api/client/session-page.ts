import type { Message, SessionEvent } from "../shapes.js";
import type { WatchedEvent } from "./watch.js";

/** How a session stands. */
export type SessionState = Omit<Extract<SessionEvent, { type: "state" }>, "type">;

const RUNNING: ReadonlySet<unknown> = new Set(["running", "waiting"]);
/** Of what a tool prints so many characters are kept, the last ones. */
const PRINTED = 64 * 1024;

/**
 * What the events of a session make: applied in their order, from whichever place on, it has what
 * `GET /api/sessions/{id}/messages` tells. A message that changes is another object, one that does not stays the same.
 */
export class SessionPage {
  /** How the session stands; undefined before the first event. */
  state: SessionState | undefined;
  /** The place up to which all was applied. */
  cursor: string | undefined;
  /** That the session is gone. */
  deleted = false;
  /** What running tools printed, by `tool_call_id`; gone when their result is there. */
  readonly progress = new Map<string, string>();
  #messages: Message[] = [];
  #shown: readonly Message[] | undefined;

  /** All messages by ascending `seq`: the same array until one of them changes. */
  get messages(): readonly Message[] {
    return (this.#shown ??= [...this.#messages]);
  }

  /** Apply the next event. */
  apply(event: WatchedEvent): void {
    if (event.cursor !== undefined) this.cursor = event.cursor;
    switch (event.type) {
      case "state": {
        const { type: _type, cursor: _cursor, first, ...state } = event;
        this.state = state;
        // Of a run that ended some calls have no result; at a new connection it is told anew.
        if (first || !RUNNING.has(state.run?.state)) this.progress.clear();
        break;
      }
      case "message":
        this.#put(event.message);
        break;
      case "delta": {
        const message = this.at(event.seq);
        if (!message) break;
        const { content, reasoning } = event;
        // What grows is text: parts come whole.
        const said = typeof message.content === "string" ? message.content : "";
        this.#put({
          ...message,
          ...(content !== undefined && { content: said + content }),
          ...(reasoning !== undefined && { reasoning: (message.reasoning ?? "") + reasoning }),
        });
        break;
      }
      case "message_end": {
        const message = this.at(event.message.seq);
        if (!message) break;
        const { finished: _finished, ...said } = message;
        this.#put({ ...said, ...event.message });
        break;
      }
      case "cut":
        this.#messages = this.#messages.filter(({ seq }) => seq <= event.after);
        this.#shown = undefined;
        break;
      case "tool_progress":
        this.#print(event.tool_call_id, event.content);
        break;
      case "deleted":
        this.deleted = true;
    }
  }

  /** Add messages that were asked for, like older ones. What the events told stays. */
  add(messages: readonly Message[]): void {
    for (const message of messages) if (!this.at(message.seq)) this.#put(message);
  }

  /** The message with this `seq`, as far as it was told. */
  at(seq: number): Message | undefined {
    const message = this.#messages[this.#place(seq)];
    return message?.seq === seq ? message : undefined;
  }

  #print(call: string, text: string): void {
    this.progress.set(call, ((this.progress.get(call) ?? "") + text).slice(-PRINTED));
  }

  #put(message: Message): void {
    const place = this.#place(message.seq);
    this.#messages.splice(place, this.#messages[place]?.seq === message.seq ? 1 : 0, message);
    this.#shown = undefined;
    if (message.role === "tool") this.progress.delete(message.tool_call_id);
  }

  /** Where this `seq` is, or belongs: most are the last one, or behind it. */
  #place(seq: number): number {
    let [low, high] = [0, this.#messages.length];
    if ((this.#messages[high - 1]?.seq ?? -1) < seq) return high;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#messages[middle]?.seq ?? 0) < seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
