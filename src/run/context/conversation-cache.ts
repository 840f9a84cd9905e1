import type { Conversation } from "../../conversation/conversation.js";

/** Maximum size of all cached conversations, in estimated bytes. */
const MAX_CACHE_BYTES = 96 * 1024 * 1024;
/**
 * Estimated heap of a conversation and of a message besides their content, in bytes. Measured with V8's heap after a
 * garbage collection; a message counts with the form that a model reads.
 */
const CONVERSATION_OVERHEAD_BYTES = 2_000;
const MESSAGE_OVERHEAD_BYTES = 1_000;
/** Time after which an unused conversation is removed, in ms. */
const CACHE_TTL_MS = 300_000;

interface CacheEntry {
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
  /** Entries by the id of the chain's first session. The least recently used entry comes first. */
  readonly #entries = new Map<string, CacheEntry>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes = MAX_CACHE_BYTES) {
    this.#maxBytes = maxBytes;
  }

  /** Returns the fence of the lease under which a cached chain was last written; undefined if it is not cached. */
  getFence(rootId: string): number | undefined {
    return this.#entries.get(rootId)?.fence;
  }

  /**
   * Removes a conversation and returns it, so that the caller has exclusive use. `previousFence`: fence of the
   * chain's last lease, as returned with the next lease. Returns undefined if `previousFence` is not the cached fence.
   */
  take(rootId: string, previousFence: number | undefined): Conversation | undefined {
    const entry = this.#entries.get(rootId);
    this.drop(rootId);
    return entry !== undefined && entry.fence === previousFence ? entry.conversation : undefined;
  }

  /** Caches a conversation. Call this after it is stored and before its lease is released. */
  keep(rootId: string, fence: number, conversation: Conversation): void {
    this.drop(rootId);
    const bytes = estimateBytes(conversation);
    if (bytes > this.#maxBytes) return;
    const timer = setTimeout(() => this.drop(rootId), CACHE_TTL_MS).unref();
    this.#entries.set(rootId, { conversation, fence, bytes, timer });
    this.#bytes += bytes;
    for (const id of this.#entries.keys()) {
      if (this.#bytes <= this.#maxBytes) break;
      this.drop(id);
    }
  }

  drop(rootId: string): void {
    const entry = this.#entries.get(rootId);
    if (!entry) return;
    clearTimeout(entry.timer);
    this.#entries.delete(rootId);
    this.#bytes -= entry.bytes;
  }

  /** Estimated size of all entries, in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  clear(): void {
    for (const id of [...this.#entries.keys()]) this.drop(id);
  }
}

/** Estimates the size in memory. Attached files count with all bytes, not only with the bytes that a model reads. */
function estimateBytes({ messages, size }: Conversation): number {
  return CONVERSATION_OVERHEAD_BYTES + size.bytes + size.attachedBytes + messages.length * MESSAGE_OVERHEAD_BYTES;
}
