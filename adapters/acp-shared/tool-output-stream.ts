import { textBlock } from "./updates.js";
import type { SessionUpdate } from "./wire.js";

/**
 * Maximum characters of a running call's output that are shown, from its end. Each update replaces the previous one.
 */
const SHOWN = 8 * 1024;
/** Minimum interval between updates, in ms. */
const EVERY_MS = 300;

/** Sends the output of running calls as updates to one client. */
export class ToolOutputStream {
  readonly #send: (update: SessionUpdate) => void;
  readonly #texts = new Map<string, string>();
  readonly #news = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(send: (update: SessionUpdate) => void) {
    this.#send = send;
  }

  add(callId: string, text: string): void {
    this.#texts.set(callId, ((this.#texts.get(callId) ?? "") + text).slice(-2 * SHOWN));
    this.#news.add(callId);
    if (this.#timer !== undefined) return;
    this.#tell();
    this.#timer = setInterval(() => this.#tell(), EVERY_MS).unref();
  }

  /** Removes a call that has ended; its result contains the output. */
  end(callId: string): void {
    this.#texts.delete(callId);
    this.#news.delete(callId);
    if (this.#texts.size === 0) this.close();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#texts.clear();
    this.#news.clear();
  }

  #tell(): void {
    for (const toolCallId of this.#news) {
      const content = [{ type: "content" as const, content: textBlock(endOf(this.#texts.get(toolCallId) ?? "")) }];
      this.#send({ sessionUpdate: "tool_call_update", toolCallId, status: "in_progress", content });
    }
    this.#news.clear();
  }
}

/** The last `SHOWN` characters, from the start of a line if there is one. */
function endOf(text: string): string {
  if (text.length <= SHOWN) return text;
  const end = text.slice(-SHOWN);
  const line = end.indexOf("\n");
  return `[…]\n${line >= 0 && line < end.length - 1 ? end.slice(line + 1) : end.replace(/^[\udc00-\udfff]/, "")}`;
}
