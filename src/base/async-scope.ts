/** Owns resources that are released together: when an operation fails, or when its result is no longer needed. */
export class AsyncScope {
  readonly #releases: (() => Promise<void>)[] = [];

  /** Takes ownership of a resource and returns it. `release` is called as for `defer`. */
  use<T>(resource: T, release: (resource: T) => unknown): T {
    this.defer(() => release(resource));
    return resource;
  }

  /** Calls `release` once, when the scope closes or the returned function is called, whichever is first. */
  defer(release: () => unknown): () => Promise<void> {
    let released: Promise<void> | undefined;
    const releaseOnce = () => (released ??= (async () => void (await release()))());
    this.#releases.push(releaseOnce);
    return releaseOnce;
  }

  /**
   * Releases everything, the newest resource first, each after the previous release has ended. Idempotent. Rejects with
   * the first error, after all resources are released.
   */
  async close(): Promise<void> {
    let failure: { error: unknown } | undefined;
    for (let release = this.#releases.pop(); release; release = this.#releases.pop())
      await release().catch((error: unknown) => (failure ??= { error }));
    if (failure) throw failure.error;
  }
}
