/** Maximum number of session ids whose chain is cached. */
const MAX_CACHED_IDS = 20_000;

/** Runs changes with a common key in the order of the calls, on any connection. Other changes do not wait. */
export class KeyQueue {
  readonly #lastChangeByKey = new Map<string, Promise<void>>();
  #lastChangeOfUnknownKeys: Promise<void> | undefined;
  /** Root ids of chains by session id. */
  readonly #rootIdsBySessionId = new Map<string, string>();

  cacheRoot(id: string, rootId: string): void {
    if (this.#rootIdsBySessionId.get(id) === rootId) return;
    this.#rootIdsBySessionId.set(id, rootId);
    if (this.#rootIdsBySessionId.size <= MAX_CACHED_IDS) return;
    const [oldestId] = this.#rootIdsBySessionId.keys();
    if (oldestId !== undefined) this.#rootIdsBySessionId.delete(oldestId);
  }

  /** Returns the key of a session's chain; undefined if the chain is not cached. */
  getChainKey(id: string): string | undefined {
    const rootId = this.#rootIdsBySessionId.get(id);
    return rootId === undefined ? undefined : `chain ${rootId}`;
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
    const settledPromise = result.then(
      () => undefined,
      () => undefined,
    );
    if (affectsAll) this.#lastChangeOfUnknownKeys = settledPromise;
    for (const key of definedKeys) this.#lastChangeByKey.set(key, settledPromise);
    try {
      return await result;
    } finally {
      if (this.#lastChangeOfUnknownKeys === settledPromise) this.#lastChangeOfUnknownKeys = undefined;
      for (const key of definedKeys)
        if (this.#lastChangeByKey.get(key) === settledPromise) this.#lastChangeByKey.delete(key);
    }
  }
}
