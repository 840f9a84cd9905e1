import type { Conversation } from "../../conversation/conversation.js";
import { isPlainJson, GRANT_PREFIX, collectState, type StateChanges } from "../../conversation/conversation.js";
import type { SessionDriver } from "../../ports/session-driver.js";

/** Maximum sessions whose state is cached. The state of other sessions is read from their stored results. */
const MAX_CACHED_STATES = 256;

/**
 * The state of a session as one call sees it. Records the changes of the call, so that they are stored with its result.
 * The state belongs to the session, not to the process.
 */
export class CallState extends Map<string, unknown> {
  readonly #sessionState: Map<string, unknown>;
  readonly #changedKeys = new Set<string>();

  constructor(sessionState: Map<string, unknown>) {
    super();
    this.#sessionState = sessionState;
  }

  /** Returns changes to plain JSON only, because any other value would differ after it is read from a store. */
  collectChanges(): StateChanges {
    const changes: StateChanges = {};
    for (const key of this.#changedKeys) {
      // Grants are never stored with a result.
      if (key.startsWith(GRANT_PREFIX)) continue;
      const value = this.#sessionState.get(key) ?? null;
      if (isPlainJson(value)) changes[key] = value;
    }
    return changes;
  }

  override get(key: string): unknown {
    return this.#sessionState.get(key);
  }
  override has(key: string): boolean {
    return this.#sessionState.has(key);
  }
  override set(key: string, value: unknown): this {
    this.#sessionState.set(key, value);
    this.#changedKeys.add(key);
    return this;
  }
  override delete(key: string): boolean {
    this.#changedKeys.add(key);
    return this.#sessionState.delete(key);
  }
  override clear(): void {
    for (const key of [...this.#sessionState.keys()]) this.delete(key);
  }
  override get size(): number {
    return this.#sessionState.size;
  }
  override keys() {
    return this.#sessionState.keys();
  }
  override values() {
    return this.#sessionState.values();
  }
  override entries() {
    return this.#sessionState.entries();
  }
  override forEach(callback: (value: unknown, key: string, map: Map<string, unknown>) => void): void {
    this.#sessionState.forEach((value, key) => callback(value, key, this));
  }
  override [Symbol.iterator]() {
    return this.#sessionState[Symbol.iterator]();
  }
}

/** Caches the state that tools store for their sessions. State that is not cached is read from the store. */
export class ToolStateCache {
  /** State by session id. The least recently used entry comes first. */
  readonly #states = new Map<string, Map<string, unknown>>();

  /**
   * Loads the state of a conversation. `isUnchanged`: no other process has continued the conversation since its last
   * run here.
   */
  async load(
    { session, messages }: Conversation,
    store: SessionDriver,
    isUnchanged: boolean,
  ): Promise<Map<string, unknown>> {
    const { root, index } = session.chain;
    const cachedState = this.#states.get(root);
    let state = cachedState;
    if (!state || !isUnchanged) {
      // The view of a follow-up session may omit the results that contain the state, so read the full chain.
      state = collectState(index === 0 ? messages : await store.messages(root, { scope: "chain" }));
      // Values that cannot be stored are kept as long as this process runs.
      for (const [key, value] of cachedState ?? [])
        if (key.startsWith(GRANT_PREFIX) || !isPlainJson(value)) state.set(key, value);
    }
    this.#states.delete(root);
    this.#states.set(root, state);
    const oldestId = this.#states.keys().next().value;
    if (this.#states.size > MAX_CACHED_STATES && oldestId !== undefined) this.#states.delete(oldestId);
    return state;
  }
}
