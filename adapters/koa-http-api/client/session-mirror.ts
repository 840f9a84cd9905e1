import type { ApiMessage, SessionEvent } from "../shapes.js";
import type { WatchedEvent } from "./watch.js";

/** State of a session without its messages. */
export type ApiSessionState = Omit<Extract<SessionEvent, { type: "state" }>, "type">;

const RUNNING_STATES: ReadonlySet<unknown> = new Set(["running", "waiting"]);
/** Maximum characters of a running tool's output; the oldest characters are dropped. */
const MAX_PROGRESS_CHARACTERS = 64 * 1024;

/**
 * The state that results from the events of a session. The events may begin anywhere, but must then be complete and in
 * order.
 *
 * The messages are the same as from `GET /api/sessions/{id}/messages`. A changed message is a new object; an unchanged
 * message stays the same object.
 */
export class SessionMirror {
  /** State of the session; undefined before the first event. */
  state: ApiSessionState | undefined;
  /** Cursor of the last applied event; undefined before the first event with a cursor. */
  cursor: string | undefined;
  /** Whether the session was deleted. */
  deleted = false;
  /** Output of running tools by `tool_call_id`; removed when the result arrives. */
  readonly progress = new Map<string, string>();
  #messages: ApiMessage[] = [];
  #messagesCopy: readonly ApiMessage[] | undefined;

  /** All messages by ascending `seq`. The array stays the same object until a message changes. */
  get messages(): readonly ApiMessage[] {
    return (this.#messagesCopy ??= [...this.#messages]);
  }

  /** Applies the next event. */
  apply(event: WatchedEvent): void {
    if (event.cursor !== undefined) this.cursor = event.cursor;
    switch (event.type) {
      case "state": {
        const { type: _type, cursor: _cursor, first, ...state } = event;
        this.state = state;
        // An ended run may leave calls without a result. A new connection sends the output of running tools again.
        if (first || !RUNNING_STATES.has(state.run?.state)) this.progress.clear();
        break;
      }
      case "message":
        this.#put(event.message);
        break;
      case "delta": {
        const message = this.at(event.seq);
        if (!message) break;
        const { content, reasoning } = event;
        // Deltas extend only text. Other parts arrive complete.
        const text = typeof message.content === "string" ? message.content : "";
        this.#put({
          ...message,
          ...(content !== undefined && { content: text + content }),
          ...(reasoning !== undefined && { reasoning: (message.reasoning ?? "") + reasoning }),
        });
        break;
      }
      case "message_end": {
        const message = this.at(event.message.seq);
        if (!message) break;
        const { finished: _finished, ...currentMessage } = message;
        this.#put({ ...currentMessage, ...event.message });
        break;
      }
      case "rewind":
        this.#messages = this.#messages.filter(({ seq }) => seq <= event.after);
        this.#messagesCopy = undefined;
        break;
      case "tool_progress":
        this.#addProgress(event.tool_call_id, event.content);
        break;
      case "deleted":
        this.deleted = true;
    }
  }

  /** Adds messages from a request, for example older ones. Messages from events are not overwritten. */
  add(messages: readonly ApiMessage[]): void {
    for (const message of messages) if (!this.at(message.seq)) this.#put(message);
  }

  /** The message with this `seq`, with the text received so far; undefined if there is no such message. */
  at(seq: number): ApiMessage | undefined {
    const message = this.#messages[this.#indexOf(seq)];
    return message?.seq === seq ? message : undefined;
  }

  #addProgress(callId: string, text: string): void {
    this.progress.set(callId, ((this.progress.get(callId) ?? "") + text).slice(-MAX_PROGRESS_CHARACTERS));
  }

  #put(message: ApiMessage): void {
    const index = this.#indexOf(message.seq);
    this.#messages.splice(index, this.#messages[index]?.seq === message.seq ? 1 : 0, message);
    this.#messagesCopy = undefined;
    if (message.role === "tool") this.progress.delete(message.tool_call_id);
  }

  /** Index of the message with this `seq`, or the index at which to insert it. Most messages belong at the end. */
  #indexOf(seq: number): number {
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
