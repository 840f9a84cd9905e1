import assert from "node:assert/strict";
import type { Message, SessionState, WatchEvent } from "gantry";

/** The page of a watcher that applies a session's events in order. */
export class WatchedPage {
  readonly #messages = new Map<number, Message>();
  cursor = "";
  state: SessionState | undefined;
  isDeleted = false;
  /** Number of events with a cursor. */
  cursorEventCount = 0;

  apply(event: WatchEvent): void {
    if ("cursor" in event) {
      assert.notEqual(event.cursor, this.cursor, `cursor received twice: ${JSON.stringify(event).slice(0, 200)}`);
      this.cursor = event.cursor;
      this.cursorEventCount += 1;
    }
    switch (event.type) {
      case "state":
        this.state = event.state;
        break;
      case "message":
        this.#messages.set(event.message.seq, structuredClone(event.message));
        break;
      case "delta": {
        const message = this.#messages.get(event.seq);
        assert.equal(message?.id, event.messageId);
        const part = message.parts.findLast(({ type }) => type === event.kind);
        if (part && "text" in part) part.text += event.text;
        else message.parts.push({ type: event.kind, text: event.text });
        break;
      }
      case "message_end": {
        const storedMessage = this.#messages.get(event.message.seq);
        // The deltas must already be complete: the end event must not be needed to correct them.
        for (const kind of ["text", "reasoning"] as const)
          assert.equal(joinText(storedMessage, kind), joinText(event.message, kind));
        this.#messages.set(event.message.seq, structuredClone(event.message));
        break;
      }
      case "rewind":
        for (const seq of [...this.#messages.keys()]) if (seq > event.after) this.#messages.delete(seq);
        break;
      case "deleted":
        this.isDeleted = true;
        break;
      case "tool_progress":
    }
  }

  /** Messages in order. The texts of a growing or interrupted message are joined. */
  get messages(): Message[] {
    return [...this.#messages.entries()].sort(([a], [b]) => a - b).map(([, message]) => joinTexts(message));
  }
}

/**
 * Joins the texts of an unfinished message into one part of each kind, because only the message's end event reports to
 * which part a text belongs. Finished messages are unchanged.
 */
export function joinTexts(message: Message): Message {
  if (message.finished) return message;
  const parts = (["text", "reasoning"] as const).map((type) => ({ type, text: joinText(message, type) }));
  return { ...message, parts };
}

function joinText(message: Message | undefined, kind: "text" | "reasoning"): string {
  return (message?.parts ?? []).map((part) => (part.type === kind ? part.text : "")).join("");
}
