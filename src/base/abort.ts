/** Calls `act` once when the signal aborts, now when it has. The returned function ends that. */
export function onAbort(signal: AbortSignal, act: () => void): () => void {
  if (signal.aborted) act();
  else signal.addEventListener("abort", act, { once: true });
  return () => signal.removeEventListener("abort", act);
}

/** The promise's outcome, or the signal's reason if that comes first. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const forget = onAbort(signal, () => reject(signal.reason as Error));
    promise.then(resolve, reject).finally(forget);
  });
}

/**
 * Hands each value of an iterator to `take`, to its end; what `take` returns is waited for. Rejects as either does, or
 * with the signal's reason at once, whatever the iterator does then. One promise and one listener serve all values: an
 * answer has 20,000 tokens.
 */
export function takeEach<T>(
  values: AsyncIterator<T>,
  signal: AbortSignal,
  take: (value: T) => Promise<void> | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let over = false;
    const end = () => {
      over = true;
      forget();
    };
    const failed = (reason: unknown) => {
      end();
      reject(reason as Error);
    };
    const next = () => void (over || values.next().then(taken, failed));
    const taken = ({ done, value }: IteratorResult<T, unknown>) => {
      if (over) return;
      if (done) {
        end();
        resolve();
        return;
      }
      try {
        const wait = take(value);
        if (wait) wait.then(next, failed);
        else next();
      } catch (error) {
        failed(error);
      }
    };
    const forget = onAbort(signal, () => {
      over = true;
      reject(signal.reason as Error);
    });
    next();
  });
}

/** Waits; rejects with the signal's reason. */
export function delay(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      forget();
      resolve();
    }, ms);
    const forget = onAbort(signal, () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    });
  });
}

/** Whether the work settled, well or not, within `ms`. Never rejects. */
export async function settlesWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), ms)));
  const settled = work.then(
    () => true,
    () => true,
  );
  return Promise.race([settled, late]).finally(() => clearTimeout(timer));
}

/** A signal that aborts after `ms` with a `TimeoutError`, or with one of `signals`; `clear` when it is no longer needed. */
export interface Deadline {
  readonly signal: AbortSignal;
  /** Whether the time was over first. */
  readonly expired: boolean;
  clear(): void;
}

/**
 * Without a time it is the signals alone. Unlike `AbortSignal.timeout` it keeps the process alive while somebody waits, and it fires for sure:
 * Node loses time-outs that only `AbortSignal.any` refers to (nodejs/node#54614).
 */
export function deadline(ms: number | undefined, ...signals: AbortSignal[]): Deadline {
  const controller = new AbortController();
  let expired = false;
  const listeners = signals.map((signal) => onAbort(signal, () => controller.abort(signal.reason)));
  const late = () => {
    expired = !controller.signal.aborted;
    controller.abort(new DOMException(`not within ${ms} ms`, "TimeoutError"));
  };
  const timer = ms === undefined ? undefined : setTimeout(late, ms);
  const clear = () => {
    clearTimeout(timer);
    for (const forget of listeners) forget();
  };
  if (controller.signal.aborted) clear();
  return {
    signal: controller.signal,
    get expired() {
      return expired;
    },
    clear,
  };
}
