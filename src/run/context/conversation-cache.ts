import type { Conversation } from "../../conversation/conversation.js";

/** Maximum size of all cached conversations, in estimated bytes. */
const KEPT_BYTES = 32 * 1024 * 1024;
/** Estimated overhead of a message besides its content, in bytes. */
const MESSAGE_BYTES = 400;
/** Time after which an unused conversation is removed, in ms. */
const KEPT_MS = 300_000;

interface Kept {
  conversation: Conversation;
  /** Fence of the lease under which the conversation was last written. */
  fence: number;
  bytes: number;
  timer: NodeJS.Timeout;
}

/**
 * Caches conversations after a run, so that the next prompt does not read a long one again. The store is authoritative:
 * an entry is used only if no other holder had the session's lease since.
 */
export class ConversationCache {
  /** By the id of the chain's original. The least recently used entry comes first. */
  readonly #kept = new Map<string, Kept>();
  readonly #most: number;
  #bytes = 0;

  constructor(most = KEPT_BYTES) {
    this.#most = most;
  }

  /** Fence of the lease under which a cached chain was last written; undefined if it is not cached. */
  fenceOf(rootId: string): number | undefined {
    return this.#kept.get(rootId)?.fence;
  }

  /**
   * Removes a conversation and returns it, so that the caller has exclusive use. `previous`: fence of the chain's last
   * lease, as returned with the next lease. Returns undefined if it is not the cached fence.
   */
  take(rootId: string, previous: number | undefined): Conversation | undefined {
    const kept = this.#kept.get(rootId);
    this.drop(rootId);
    return kept !== undefined && kept.fence === previous ? kept.conversation : undefined;
  }

  /** Call this after all of the conversation is stored and before its lease is released. */
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

  /** Removes all entries. */
  clear(): void {
    for (const id of [...this.#kept.keys()]) this.drop(id);
  }
}

/** Attached files count with their size in memory, not only with the size that a model reads. */
function weightOf({ messages, size }: Conversation): number {
  return size.bytes + size.attached + messages.length * MESSAGE_BYTES;
}
