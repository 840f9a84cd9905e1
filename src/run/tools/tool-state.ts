import type { Conversation } from "../../conversation/conversation.js";
import { isPlainJson, GRANT_PREFIX, collectState, type StateChanges } from "../../conversation/stored-state.js";
import type { SessionDriver } from "../../ports/session-driver.js";

/** Maximum sessions whose state is cached. The state of other sessions is read from their stored results. */
const MAX_CACHED_STATES = 256;

/**
 * The state of a session as one call sees it. Records the changes of the call, so that they are stored with its result.
 * The state belongs to the session, not to the process.
 */
export class CallState extends Map<string, unknown> {
  readonly #shared: Map<string, unknown>;
  readonly #changed = new Set<string>();

  constructor(shared: Map<string, unknown>) {
    super();
    this.#shared = shared;
  }

  /** Only plain JSON, because any other value would differ after it is read from a store. */
  changes(): StateChanges {
    const changes: StateChanges = {};
    for (const key of this.#changed) {
      if (key.startsWith(GRANT_PREFIX)) continue;
      const value = this.#shared.get(key) ?? null;
      if (isPlainJson(value)) changes[key] = value;
    }
    return changes;
  }

  override get(key: string): unknown {
    return this.#shared.get(key);
  }
  override has(key: string): boolean {
    return this.#shared.has(key);
  }
  override set(key: string, value: unknown): this {
    this.#shared.set(key, value);
    this.#changed.add(key);
    return this;
  }
  override delete(key: string): boolean {
    this.#changed.add(key);
    return this.#shared.delete(key);
  }
  override clear(): void {
    for (const key of [...this.#shared.keys()]) this.delete(key);
  }
  override get size(): number {
    return this.#shared.size;
  }
  override keys() {
    return this.#shared.keys();
  }
  override values() {
    return this.#shared.values();
  }
  override entries() {
    return this.#shared.entries();
  }
  override forEach(each: (value: unknown, key: string, map: Map<string, unknown>) => void): void {
    this.#shared.forEach((value, key) => each(value, key, this));
  }
  override [Symbol.iterator]() {
    return this.#shared[Symbol.iterator]();
  }
}

/** Caches the state that tools store for their sessions. State that is not cached is read from the store. */
export class ToolStateCache {
  /** Newest last, so that the least recently used entry is removed first. */
  readonly #states = new Map<string, Map<string, unknown>>();

  /** The state of a conversation. `isSame`: no other process has continued the conversation since its last run here. */
  async of({ session, messages }: Conversation, store: SessionDriver, isSame: boolean): Promise<Map<string, unknown>> {
    const { root, index } = session.chain;
    const cachedState = this.#states.get(root);
    let state = cachedState;
    if (!state || !isSame) {
      // The view of a follow-up session may omit the results that contain the state, so read the full chain.
      state = collectState(index === 0 ? messages : await store.messages(root, { scope: "chain" }));
      // Values that no store keeps live as long as this process.
      for (const [key, value] of cachedState ?? [])
        if (key.startsWith(GRANT_PREFIX) || !isPlainJson(value)) state.set(key, value);
    }
    this.#states.delete(root);
    this.#states.set(root, state);
    const oldest = this.#states.keys().next().value;
    if (this.#states.size > MAX_CACHED_STATES && oldest !== undefined) this.#states.delete(oldest);
    return state;
  }
}
