/** Tool calls of a prompt that the client has received, and those with a question. */
export class ReportedCalls {
  readonly #reportedIds = new Set<string>();
  readonly #askedIds = new Set<string>();
  readonly #resolversByCallId = new Map<string, () => void>();

  /** Marks a call that has a question: the call does not run before the answer. */
  markAsked(callId: string): void {
    this.#askedIds.add(callId);
  }

  isAsked(callId: string): boolean {
    return this.#askedIds.has(callId);
  }

  /** Records that the client has received the call. */
  add(callId: string): void {
    this.#reportedIds.add(callId);
    this.#resolversByCallId.get(callId)?.();
  }

  /** Resolves when the client has received the call, or the signal aborts. */
  async waitFor(callId: string, signal: AbortSignal): Promise<void> {
    if (this.#reportedIds.has(callId) || signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#resolversByCallId.set(callId, resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }
}
