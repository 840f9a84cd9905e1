/** Tool calls of a prompt that the client has received, and those with a question. */
export class ReportedCalls {
  readonly #calls = new Set<string>();
  readonly #asked = new Set<string>();
  readonly #waiting = new Map<string, () => void>();

  /** Marks a call with a question: it does not run before the answer. */
  markAsked(callId: string): void {
    this.#asked.add(callId);
  }

  isAsked(callId: string): boolean {
    return this.#asked.has(callId);
  }

  add(callId: string): void {
    this.#calls.add(callId);
    this.#waiting.get(callId)?.();
  }

  /** Resolves when the client has received the call, or the signal aborts. */
  async waitFor(callId: string, signal: AbortSignal): Promise<void> {
    if (this.#calls.has(callId) || signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#waiting.set(callId, resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }
}
