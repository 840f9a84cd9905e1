/** The promise's outcome, or the signal's reason if that comes first. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason as Error);
    if (signal.aborted) {
      promise.catch(() => undefined);
      onAbort();
      return;
    }
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

/** Waits; rejects with the signal's reason. */
export function delay(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal.addEventListener("abort", onAbort, { once: true });
  });
}

/** A signal that aborts after `ms` with a `TimeoutError`, or with one of `signals`; `clear` when it is no longer needed. */
export interface Deadline {
  readonly signal: AbortSignal;
  /** Whether the time was over first. */
  readonly expired: boolean;
  clear(): void;
}

/**
 * Unlike `AbortSignal.timeout` it keeps the process alive while somebody waits, and it fires for sure:
 * Node loses time-outs that only `AbortSignal.any` refers to (nodejs/node#54614).
 */
export function deadline(ms: number, ...signals: AbortSignal[]): Deadline {
  const controller = new AbortController();
  const own = new DOMException(`not within ${ms} ms`, "TimeoutError");
  const listeners = signals.map((signal) => {
    const onAbort = () => controller.abort(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
    return () => signal.removeEventListener("abort", onAbort);
  });
  const timer = setTimeout(() => controller.abort(own), ms);
  const clear = () => {
    clearTimeout(timer);
    for (const remove of listeners) remove();
  };
  if (controller.signal.aborted) clear();
  return {
    signal: controller.signal,
    get expired() {
      return controller.signal.reason === own;
    },
    clear,
  };
}
