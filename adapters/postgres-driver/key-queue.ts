/** Most chains whose ids are remembered. */
const KNOWN = 20_000;

/**
 * Changes that touch the same thing take effect in the order in which they were asked for, whichever connection they go by;
 * others do not wait for each other.
 */
export class KeyQueue {
  /** By what is touched: the last change that touches it. */
  readonly #last = new Map<string, Promise<void>>();
  /** The last change of which nobody knows what it touches. */
  #whole: Promise<void> | undefined;
  /** Roots by the ids of sessions. */
  readonly #roots = new Map<string, string>();

  /** A session of a chain was seen. */
  learn(id: string, root: string): void {
    if (this.#roots.get(id) === root) return;
    this.#roots.set(id, root);
    if (this.#roots.size <= KNOWN) return;
    const [oldest] = this.#roots.keys();
    if (oldest !== undefined) this.#roots.delete(oldest);
  }

  /** What names the chain of a session; undefined where that was never seen. */
  chain(id: string): string | undefined {
    const root = this.#roots.get(id);
    return root === undefined ? undefined : `chain ${root}`;
  }

  /** Do it when all that was asked for before and touches one of these is done; undefined among them: it may touch all. */
  async after<T>(touched: readonly (string | undefined)[], work: () => Promise<T>): Promise<T> {
    const named = touched.filter((one) => one !== undefined);
    const isWhole = named.length < touched.length;
    const last = isWhole ? [...this.#last.values()] : named.map((one) => this.#last.get(one));
    const before = [...last, this.#whole].filter((one) => one !== undefined);
    const result = before.length === 0 ? work() : Promise.all(before).then(work);
    const done = result.then(
      () => undefined,
      () => undefined,
    );
    if (isWhole) this.#whole = done;
    for (const one of named) this.#last.set(one, done);
    try {
      return await result;
    } finally {
      if (this.#whole === done) this.#whole = undefined;
      for (const one of named) if (this.#last.get(one) === done) this.#last.delete(one);
    }
  }
}
