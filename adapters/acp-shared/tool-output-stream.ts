import { toTextBlock } from "./updates.js";
import type { SessionUpdate } from "./wire.js";

/** Maximum characters of a running call's output in an update. Each update replaces the previous update. */
const MAX_OUTPUT_CHARACTERS = 8 * 1024;
/** Minimum interval between updates, in ms. */
const UPDATE_INTERVAL_MS = 300;

/** Sends the output of running calls as updates to one client. */
export class ToolOutputStream {
  readonly #send: (update: SessionUpdate) => void;
  readonly #outputByCallId = new Map<string, string>();
  readonly #changedCallIds = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(send: (update: SessionUpdate) => void) {
    this.#send = send;
  }

  /** Adds output of a call. Sends the first output at once, later output every `UPDATE_INTERVAL_MS`. */
  add(callId: string, text: string): void {
    // Keep more than an update shows: `takeLastLines` then detects by the length that the start is missing.
    this.#outputByCallId.set(
      callId,
      ((this.#outputByCallId.get(callId) ?? "") + text).slice(-2 * MAX_OUTPUT_CHARACTERS),
    );
    this.#changedCallIds.add(callId);
    if (this.#timer !== undefined) return;
    this.#sendUpdates();
    this.#timer = setInterval(() => this.#sendUpdates(), UPDATE_INTERVAL_MS).unref();
  }

  /** Removes a call that has ended; its result contains the output. */
  end(callId: string): void {
    this.#outputByCallId.delete(callId);
    this.#changedCallIds.delete(callId);
    if (this.#outputByCallId.size === 0) this.close();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#outputByCallId.clear();
    this.#changedCallIds.clear();
  }

  #sendUpdates(): void {
    for (const toolCallId of this.#changedCallIds) {
      const content = [
        { type: "content" as const, content: toTextBlock(takeLastLines(this.#outputByCallId.get(toolCallId) ?? "")) },
      ];
      this.#send({ sessionUpdate: "tool_call_update", toolCallId, status: "in_progress", content });
    }
    this.#changedCallIds.clear();
  }
}

/** The last `MAX_OUTPUT_CHARACTERS` of a longer text after a `[…]` line, from the start of a line if possible. */
function takeLastLines(text: string): string {
  if (text.length <= MAX_OUTPUT_CHARACTERS) return text;
  const tail = text.slice(-MAX_OUTPUT_CHARACTERS);
  const lineFeedAt = tail.indexOf("\n");
  return `[…]\n${lineFeedAt >= 0 && lineFeedAt < tail.length - 1 ? tail.slice(lineFeedAt + 1) : tail.replace(/^[\udc00-\udfff]/, "")}`;
}
