import assert from "node:assert/strict";
import { checkEvent } from "./api-contract.js";

/** A message in the format of the API. */
export type WireMessage = Record<string, unknown> & { seq: number; content: unknown; reasoning: string | null };

/** An event as received. */
export interface WireEvent {
  type: string;
  id: string | undefined;
  // Tests read arbitrary fields of the data.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  data: any;
}

/**
 * Yields the events of `GET /api/sessions/{id}/events` until the stream ends. Throws if the response is not a stream.
 */
export async function* readSessionEvents(url: string, headers: Record<string, string> = {}, signal?: AbortSignal) {
  const response = await fetch(url, { headers, ...(signal && { signal }) });
  if (!response.ok || !response.body) throw new Error(`${response.status} ${await response.text()}`);
  assert.equal(response.headers.get("content-type"), "text/event-stream");
  let incompleteText = "";
  const decoder = new TextDecoder();
  for await (const bytes of response.body) {
    incompleteText += decoder.decode(bytes as Uint8Array, { stream: true });
    for (let blockEnd = incompleteText.indexOf("\n\n"); blockEnd >= 0; blockEnd = incompleteText.indexOf("\n\n")) {
      const block = incompleteText.slice(0, blockEnd);
      incompleteText = incompleteText.slice(blockEnd + 2);
      if (block.startsWith(":")) continue;
      checkEvent("GET", new URL(url).pathname, block);
      const fields = new Map(
        block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
      );
      yield {
        type: fields.get("event") ?? "",
        id: fields.get("id"),
        data: JSON.parse(fields.get("data") ?? "null"),
      } as WireEvent;
    }
  }
}

/** A page that a browser builds from a session's events, with the code that the documents show. */
export class EventPage {
  readonly #messages = new Map<number, WireMessage>();
  /** Cursor of the last event that has one; empty before the first event. */
  lastId = "";
  // Tests read arbitrary fields of the state.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  state: any;
  isDeleted = false;

  apply({ type, id, data }: WireEvent): void {
    if (id !== undefined) this.lastId = id;
    if (type === "state") this.state = data;
    if (type === "message") this.#messages.set(data.message.seq, data.message);
    if (type === "rewind")
      for (const seq of [...this.#messages.keys()]) if (seq > data.after) this.#messages.delete(seq);
    if (type === "deleted") this.isDeleted = true;
    const message = this.#messages.get(data.seq ?? data.message?.seq);
    if (type === "delta" && message) {
      if (data.content !== undefined) message.content = String(message.content) + data.content;
      if (data.reasoning !== undefined) message.reasoning = (message.reasoning ?? "") + data.reasoning;
    }
    if (type === "message_end" && message) {
      const { finished: _, ...finishedMessage } = message;
      this.#messages.set(message.seq, { ...finishedMessage, ...data.message });
    }
  }

  /** The message with this `seq`, as received until now. */
  getMessage(seq: number): WireMessage | undefined {
    return this.#messages.get(seq);
  }

  get messages(): WireMessage[] {
    return [...this.#messages.entries()].sort(([a], [b]) => a - b).map(([, message]) => message);
  }
}
