import type { Conversation } from "../../conversation/conversation.js";

/** Most that is kept in all, in bytes as they are counted here. */
const KEPT_BYTES = 32 * 1024 * 1024;
/** What a message takes beside what is said in it, about. */
const MESSAGE_BYTES = 400;
/** A conversation that nobody went on with for so long, in ms, is let go. */
const KEPT_MS = 300_000;

interface Kept {
  conversation: Conversation;
  /** Of the lease under which it was last written. */
  fence: number;
  bytes: number;
  timer: NodeJS.Timeout;
}

/**
 * Conversations as their last runs left them, so that a long one is not read again for each prompt. What counts is the
 * store: one is used only while the store tells that nobody held the session's lease since.
 */
export class KeptConversations {
  /** By the chain's original; the one longest unused comes first. */
  readonly #kept = new Map<string, Kept>();
  readonly #most: number;
  #bytes = 0;

  constructor(most = KEPT_BYTES) {
    this.#most = most;
  }

  /** Of what is kept of a chain, the lease under which it was last written. */
  fenceOf(rootId: string): number | undefined {
    return this.#kept.get(rootId)?.fence;
  }

  /** Whoever takes it has it alone. `previous`: fence of the chain's last lease, as the next one tells it. */
  take(rootId: string, previous: number | undefined): Conversation | undefined {
    const kept = this.#kept.get(rootId);
    this.drop(rootId);
    return kept !== undefined && kept.fence === previous ? kept.conversation : undefined;
  }

  /** When all that is in it is stored, and before its lease is given back. */
  keep(rootId: string, fence: number, conversation: Conversation): void {
    this.drop(rootId);
    const bytes = weightOf(conversation);
    if (bytes > this.#most) return;
    const timer = setTimeout(() => this.drop(rootId), KEPT_MS).unref();
    this.#kept.set(rootId, { conversation, fence, bytes, timer });
    this.#bytes += bytes;
    for (const id of this.#kept.keys()) {
      if (this.#bytes <= this.#most) break;
      this.drop(id);
    }
  }

  drop(rootId: string): void {
    const kept = this.#kept.get(rootId);
    if (!kept) return;
    clearTimeout(kept.timer);
    this.#kept.delete(rootId);
    this.#bytes -= kept.bytes;
  }

  /** Nothing is kept any more. */
  clear(): void {
    for (const id of [...this.#kept.keys()]) this.drop(id);
  }
}

/** Attached files count as they lie in memory, not as a model reads them alone. */
function weightOf({ messages, size }: Conversation): number {
  return size.bytes + size.attached + messages.length * MESSAGE_BYTES;
}
