type Listener = (event: never) => void;

/**
 * A typed event bus. `Events` maps event names to payloads. An error thrown by a listener is passed to `onError` and
 * does not affect other listeners.
 */
export class Bus<Events extends object> {
  readonly #listeners = new Map<keyof Events, Set<Listener>>();
  readonly #onError: (error: unknown) => void;

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  /** Adds a listener. The returned function removes it. */
  on<E extends keyof Events>(event: E, listener: (event: Events[E]) => void): () => void {
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }

  emit<E extends keyof Events>(event: E, payload: Events[E]): void {
    for (const listener of [...(this.#listeners.get(event) ?? [])]) {
      try {
        (listener as (event: Events[E]) => void)(payload);
      } catch (error) {
        this.#onError(error);
      }
    }
  }
}
