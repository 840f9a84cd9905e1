type Listener = (event: never) => void;

/** A bus of typed events: payloads by name. A listener that throws is reported and changes nothing. */
export class Bus<Events extends object> {
  readonly #listeners = new Map<keyof Events, Set<Listener>>();
  readonly #onError: (error: unknown) => void;

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  /** Listen; the returned function ends it. */
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
