import type { Conversation } from "../../conversation/conversation.js";
import { isPlainJson, LEAVE, stateOf, type StateChanges } from "../../conversation/stored-state.js";
import type { SessionDriver } from "../../ports/session-driver.js";

/** Sessions whose state is at hand; that of others is read from what they stored. */
const STATES = 256;

/**
 * The state of a session as one call sees it. It writes down what the call changes, so that it can be stored with the
 * call's result: a session's memory is in the session, not in the process.
 */
export class CallState extends Map<string, unknown> {
  readonly #shared: Map<string, unknown>;
  readonly #changed = new Set<string>();

  constructor(shared: Map<string, unknown>) {
    super();
    this.#shared = shared;
  }

  /** Plain JSON alone: of anything else a copy from a store would be something else. */
  changes(): StateChanges {
    const changes: StateChanges = {};
    for (const key of this.#changed) {
      if (key.startsWith(LEAVE)) continue;
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

/** What the tools of an agent's sessions remember: kept for the next run, and found again in what is stored. */
export class ToolStates {
  /** Newest last, so that the one longest unused goes first. */
  readonly #states = new Map<string, Map<string, unknown>>();

  /** `isSame`: nobody else has gone on with the conversation since its last run here. */
  async of({ session, messages }: Conversation, store: SessionDriver, isSame: boolean): Promise<Map<string, unknown>> {
    const { root, index } = session.chain;
    const known = this.#states.get(root);
    let state = known;
    if (!state || !isSame) {
      // A follow-up's view may have left out the results that have it.
      state = stateOf(index === 0 ? messages : await store.messages(root, { scope: "chain" }));
      // What no store keeps lives as long as this process.
      for (const [key, value] of known ?? []) if (key.startsWith(LEAVE) || !isPlainJson(value)) state.set(key, value);
    }
    this.#states.delete(root);
    this.#states.set(root, state);
    const oldest = this.#states.keys().next().value;
    if (this.#states.size > STATES && oldest !== undefined) this.#states.delete(oldest);
    return state;
  }
}
