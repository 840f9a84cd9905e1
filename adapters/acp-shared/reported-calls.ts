/** Which tool calls of its own prompt a client was told of, and asked about. */
export class Shown {
  readonly #calls = new Set<string>();
  readonly #asked = new Set<string>();
  readonly #waiting = new Map<string, () => void>();

  /** A person is asked about the call, and it does not run before they answer. */
  asks(callId: string): void {
    this.#asked.add(callId);
  }

  isAsked(callId: string): boolean {
    return this.#asked.has(callId);
  }

  add(callId: string): void {
    this.#calls.add(callId);
    this.#waiting.get(callId)?.();
  }

  /** Resolves when the client was told of the call, or the signal aborts. */
  async call(callId: string, signal: AbortSignal): Promise<void> {
    if (this.#calls.has(callId) || signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#waiting.set(callId, resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }
}
