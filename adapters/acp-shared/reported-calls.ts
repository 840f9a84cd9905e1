/** Records which tool calls of a prompt were sent to the client, and which calls have a question. */
export class ReportedCalls {
  readonly #reportedIds = new Set<string>();
  readonly #questionCallIds = new Set<string>();
  readonly #resolversByCallId = new Map<string, () => void>();

  /** Marks a call that has a question: the call does not run before the answer. */
  markQuestion(callId: string): void {
    this.#questionCallIds.add(callId);
  }

  hasQuestion(callId: string): boolean {
    return this.#questionCallIds.has(callId);
  }

  /** Records that the call was sent to the client. */
  add(callId: string): void {
    this.#reportedIds.add(callId);
    this.#resolversByCallId.get(callId)?.();
  }

  /** Resolves when the call was sent to the client, or the signal aborts. */
  async waitFor(callId: string, signal: AbortSignal): Promise<void> {
    if (this.#reportedIds.has(callId) || signal.aborted) return;
    await new Promise<void>((resolve) => {
      this.#resolversByCallId.set(callId, resolve);
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }
}
