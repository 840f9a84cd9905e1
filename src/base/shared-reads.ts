/**
 * Shares reads among concurrent callers. Each caller gets a result that was read after its call: calls during a read
 * share the read that follows it.
 */
export class SharedReads<T> {
  readonly #read: (key: string) => Promise<T>;
  /** The active read of each key, and the read that follows it. */
  readonly #readsByKey = new Map<string, { readonly active: Promise<T>; next?: Promise<T> }>();

  constructor(read: (key: string) => Promise<T>) {
    this.#read = read;
  }

  /** Resolves and rejects like `read`. */
  get(key: string): Promise<T> {
    const reads = this.#readsByKey.get(key);
    if (!reads) return this.#start(key);
    const startNext = () => this.#start(key);
    return (reads.next ??= reads.active.then(startNext, startNext));
  }

  #start(key: string): Promise<T> {
    const reads: { active: Promise<T>; next?: Promise<T> } = { active: this.#read(key) };
    this.#readsByKey.set(key, reads);
    const removeIdle = (): void => {
      if (!reads.next) this.#readsByKey.delete(key);
    };
    void reads.active.then(removeIdle, removeIdle);
    return reads.active;
  }
}
