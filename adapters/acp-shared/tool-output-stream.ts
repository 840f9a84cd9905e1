import { textBlock } from "./updates.js";
import type { SessionUpdate } from "./wire.js";

/**
 * Maximum characters of a running call's output that are shown, from its end. Each update replaces the previous one.
 */
const MAX_SHOWN_CHARACTERS = 8 * 1024;
/** Minimum interval between updates, in ms. */
const UPDATE_INTERVAL_MS = 300;

/** Sends the output of running calls as updates to one client. */
export class ToolOutputStream {
  readonly #send: (update: SessionUpdate) => void;
  readonly #texts = new Map<string, string>();
  readonly #changedCalls = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(send: (update: SessionUpdate) => void) {
    this.#send = send;
  }

  add(callId: string, text: string): void {
    this.#texts.set(callId, ((this.#texts.get(callId) ?? "") + text).slice(-2 * MAX_SHOWN_CHARACTERS));
    this.#changedCalls.add(callId);
    if (this.#timer !== undefined) return;
    this.#sendUpdates();
    this.#timer = setInterval(() => this.#sendUpdates(), UPDATE_INTERVAL_MS).unref();
  }

  /** Removes a call that has ended; its result contains the output. */
  end(callId: string): void {
    this.#texts.delete(callId);
    this.#changedCalls.delete(callId);
    if (this.#texts.size === 0) this.close();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#texts.clear();
    this.#changedCalls.clear();
  }

  #sendUpdates(): void {
    for (const toolCallId of this.#changedCalls) {
      const content = [{ type: "content" as const, content: textBlock(lastLines(this.#texts.get(toolCallId) ?? "")) }];
      this.#send({ sessionUpdate: "tool_call_update", toolCallId, status: "in_progress", content });
    }
    this.#changedCalls.clear();
  }
}

/** The last characters up to the limit, from the start of a line if there is one. */
function lastLines(text: string): string {
  if (text.length <= MAX_SHOWN_CHARACTERS) return text;
  const end = text.slice(-MAX_SHOWN_CHARACTERS);
  const line = end.indexOf("\n");
  return `[…]\n${line >= 0 && line < end.length - 1 ? end.slice(line + 1) : end.replace(/^[\udc00-\udfff]/, "")}`;
}
