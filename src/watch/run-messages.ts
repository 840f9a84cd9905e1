import type { StoredChange } from "../conversation/recorder.js";
import type { Message } from "../ports/message.js";

/** The messages that the active run of this process has stored, so that watchers need not read them from the store. */
export class RunMessages {
  /** All visible messages of the chain from this `seq` on are in `#messages`, as stored. */
  #fromSeq = Infinity;
  #messages: Message[] = [];

  /** Whether all visible messages from this `seq` on are here. */
  includesFrom(seq: number): boolean {
    return seq >= this.#fromSeq;
  }

  /** Returns at most `limit` messages, from this `seq` on, and whether more follow. */
  readPage(seq: number, limit: number): { messages: readonly Message[]; hasMore: boolean } {
    const index = this.#messages.findIndex((message) => message.seq >= seq);
    return {
      messages: index < 0 ? [] : this.#messages.slice(index, index + limit),
      hasMore: index >= 0 && index + limit < this.#messages.length,
    };
  }

  /** Applies a change that the run has stored. */
  apply({ add = [], append = [], finish = [] }: StoredChange): void {
    for (const message of add) {
      if (this.#messages.length === 0) this.#fromSeq = message.seq;
      this.#messages.push(
        message.finished ? message : { ...message, parts: message.parts.map((part) => ({ ...part })) },
      );
    }
    for (const { messageId, part, type, text } of append) {
      const parts = this.#messages.findLast(({ id }) => id === messageId)?.parts;
      const existingPart = parts?.[part];
      if (existingPart && "text" in existingPart) existingPart.text += text;
      else parts?.push({ type, text });
    }
    for (const finalMessage of finish) {
      const index = this.#messages.findLastIndex(({ id }) => id === finalMessage.id);
      const { seq, sessionId } = this.#messages[index] ?? finalMessage;
      if (index >= 0) this.#messages[index] = { ...finalMessage, seq, sessionId, finished: true };
    }
  }

  clear(): void {
    this.#fromSeq = Infinity;
    this.#messages = [];
  }
}
