import { toTextBlock } from "./updates.js";
import type { SessionUpdate } from "./wire.js";

/** Maximum characters of a running call's output in an update. Each update replaces the previous update. */
const MAX_OUTPUT_CHARACTERS = 8 * 1024;
/** Minimum interval between updates, in ms. */
const UPDATE_INTERVAL_MS = 300;

/** Sends the output of running calls as updates to one client. */
export class ToolOutputStream {
  readonly #send: (update: SessionUpdate) => void;
  readonly #showsTerminals: boolean;
  readonly #outputByCallId = new Map<string, string>();
  /** Output since the last update, of the calls that have any. */
  readonly #newOutputByCallId = new Map<string, string>();
  #timer: NodeJS.Timeout | undefined;

  /** `showsTerminals`: whether updates also contain the new output for `Terminals`. */
  constructor(send: (update: SessionUpdate) => void, showsTerminals: boolean) {
    this.#send = send;
    this.#showsTerminals = showsTerminals;
  }

  /** Adds output of a call. Sends the first output at once, later output every `UPDATE_INTERVAL_MS`. */
  add(callId: string, text: string): void {
    // Keep more than an update shows: `takeLastLines` then detects by the length that the start is missing.
    this.#outputByCallId.set(
      callId,
      ((this.#outputByCallId.get(callId) ?? "") + text).slice(-2 * MAX_OUTPUT_CHARACTERS),
    );
    this.#newOutputByCallId.set(callId, (this.#newOutputByCallId.get(callId) ?? "") + text);
    if (this.#timer !== undefined) return;
    this.#sendUpdates();
    this.#timer = setInterval(() => this.#sendUpdates(), UPDATE_INTERVAL_MS).unref();
  }

  /** Removes a call that has ended; its result contains the output. */
  end(callId: string): void {
    this.#outputByCallId.delete(callId);
    this.#newOutputByCallId.delete(callId);
    if (this.#outputByCallId.size === 0) this.close();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#outputByCallId.clear();
    this.#newOutputByCallId.clear();
  }

  #sendUpdates(): void {
    for (const [toolCallId, data] of this.#newOutputByCallId) {
      const content = [
        { type: "content" as const, content: toTextBlock(takeLastLines(this.#outputByCallId.get(toolCallId) ?? "")) },
      ];
      const _meta = { terminal_output: { terminal_id: toolCallId, data } };
      const status = "in_progress" as const;
      this.#send({
        ...{ sessionUpdate: "tool_call_update", toolCallId, status, content },
        ...(this.#showsTerminals && { _meta }),
      });
    }
    this.#newOutputByCallId.clear();
  }
}

/** The last `MAX_OUTPUT_CHARACTERS` of a longer text after a `[…]` line, from the start of a line if possible. */
function takeLastLines(text: string): string {
  if (text.length <= MAX_OUTPUT_CHARACTERS) return text;
  const tail = text.slice(-MAX_OUTPUT_CHARACTERS);
  const lineFeedAt = tail.indexOf("\n");
  return `[…]\n${lineFeedAt >= 0 && lineFeedAt < tail.length - 1 ? tail.slice(lineFeedAt + 1) : tail.replace(/^[\udc00-\udfff]/, "")}`;
}
