/** Maximum number of session ids whose chain is cached. */
const MAX_CACHED_IDS = 20_000;

/** Runs changes with a common key in the order of the calls, on any connection. Other changes do not wait. */
export class KeyQueue {
  readonly #lastChangeByKey = new Map<string, Promise<void>>();
  #lastChangeOfUnknownKeys: Promise<void> | undefined;
  /** Root ids of chains by session id. */
  readonly #rootsById = new Map<string, string>();

  cacheRoot(id: string, root: string): void {
    if (this.#rootsById.get(id) === root) return;
    this.#rootsById.set(id, root);
    if (this.#rootsById.size <= MAX_CACHED_IDS) return;
    const [oldest] = this.#rootsById.keys();
    if (oldest !== undefined) this.#rootsById.delete(oldest);
  }

  /** Returns the key of a session's chain; undefined if the chain is not cached. */
  chainKey(id: string): string | undefined {
    const root = this.#rootsById.get(id);
    return root === undefined ? undefined : `chain ${root}`;
  }

  /** Runs `work` after all earlier changes with a common key. An undefined key stands for every key. */
  async runAfter<T>(keys: readonly (string | undefined)[], work: () => Promise<T>): Promise<T> {
    const definedKeys = keys.filter((key) => key !== undefined);
    const affectsAll = definedKeys.length < keys.length;
    const earlierChanges = affectsAll
      ? [...this.#lastChangeByKey.values()]
      : definedKeys.map((key) => this.#lastChangeByKey.get(key));
    const pendingChanges = [...earlierChanges, this.#lastChangeOfUnknownKeys].filter(
      (promise) => promise !== undefined,
    );
    const result = pendingChanges.length === 0 ? work() : Promise.all(pendingChanges).then(work);
    const settled = result.then(
      () => undefined,
      () => undefined,
    );
    if (affectsAll) this.#lastChangeOfUnknownKeys = settled;
    for (const key of definedKeys) this.#lastChangeByKey.set(key, settled);
    try {
      return await result;
    } finally {
      if (this.#lastChangeOfUnknownKeys === settled) this.#lastChangeOfUnknownKeys = undefined;
      for (const key of definedKeys) if (this.#lastChangeByKey.get(key) === settled) this.#lastChangeByKey.delete(key);
    }
  }
}
