/** Maximum number of session ids whose chain is cached. */
const MAX_CACHED_IDS = 20_000;

/**
 * Orders changes: those with a common key run in the order of the calls, on any connection. Others do not wait for each
 * other.
 */
export class KeyQueue {
  /** The last change by key. */
  readonly #last = new Map<string, Promise<void>>();
  /** The last change with unknown keys. */
  #lastOfUnknownKeys: Promise<void> | undefined;
  /** Ids of chains' originals by session id. */
  readonly #roots = new Map<string, string>();

  /** Caches the chain of a session. */
  cacheRoot(id: string, root: string): void {
    if (this.#roots.get(id) === root) return;
    this.#roots.set(id, root);
    if (this.#roots.size <= MAX_CACHED_IDS) return;
    const [oldest] = this.#roots.keys();
    if (oldest !== undefined) this.#roots.delete(oldest);
  }

  /** Key of a session's chain; undefined if the chain is not cached. */
  chainKey(id: string): string | undefined {
    const root = this.#roots.get(id);
    return root === undefined ? undefined : `chain ${root}`;
  }

  /** Runs `work` after all earlier changes with a common key. An undefined entry in `touched` stands for every key. */
  async after<T>(touched: readonly (string | undefined)[], work: () => Promise<T>): Promise<T> {
    const knownKeys = touched.filter((key) => key !== undefined);
    const affectsAll = knownKeys.length < touched.length;
    const last = affectsAll ? [...this.#last.values()] : knownKeys.map((key) => this.#last.get(key));
    const before = [...last, this.#lastOfUnknownKeys].filter((promise) => promise !== undefined);
    const result = before.length === 0 ? work() : Promise.all(before).then(work);
    const done = result.then(
      () => undefined,
      () => undefined,
    );
    if (affectsAll) this.#lastOfUnknownKeys = done;
    for (const key of knownKeys) this.#last.set(key, done);
    try {
      return await result;
    } finally {
      if (this.#lastOfUnknownKeys === done) this.#lastOfUnknownKeys = undefined;
      for (const key of knownKeys) if (this.#last.get(key) === done) this.#last.delete(key);
    }
  }
}
