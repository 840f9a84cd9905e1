/**
 * Calls `act` once when the signal aborts; at once if it is already aborted. The returned function removes the
 * listener.
 */
export function onAbort(signal: AbortSignal, act: () => void): () => void {
  if (signal.aborted) act();
  else signal.addEventListener("abort", act, { once: true });
  return () => signal.removeEventListener("abort", act);
}

/** Settles like `promise`, or rejects with the signal's reason if the signal aborts first. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const forget = onAbort(signal, () => reject(signal.reason as Error));
    promise.then(resolve, reject).finally(forget);
  });
}

/**
 * Calls `take` with each value of an iterator until the iterator ends, and awaits the promise that `take` returns.
 *
 * Rejects when the iterator or `take` fails. Rejects with the signal's reason immediately on abort, even if the
 * iterator does not stop. All values share one promise and one listener, because an answer can have 20,000 tokens.
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

/** Resolves after `ms`; rejects with the signal's reason. */
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

/** Whether the work settles within `ms`, by success or failure. Never rejects. */
export async function settlesWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), ms)));
  const settled = work.then(
    () => true,
    () => true,
  );
  return Promise.race([settled, late]).finally(() => clearTimeout(timer));
}

/**
 * A signal that aborts after `ms` with a `TimeoutError`, or when one of the given signals aborts. Call `clear` when it
 * is no longer needed.
 */
export interface Deadline {
  readonly signal: AbortSignal;
  /** Whether the time limit was reached before another signal aborted. */
  readonly expired: boolean;
  clear(): void;
}

/**
 * Creates a deadline. If `ms` is undefined, only `signals` abort it.
 *
 * Unlike `AbortSignal.timeout`, the timer keeps the process alive, and it always fires. Node loses timeouts that only
 * `AbortSignal.any` refers to (nodejs/node#54614).
 */
export function deadline(ms: number | undefined, ...signals: AbortSignal[]): Deadline {
  const controller = new AbortController();
  let expired = false;
  const listeners = signals.map((signal) => onAbort(signal, () => controller.abort(signal.reason)));
  const expire = () => {
    expired = !controller.signal.aborted;
    controller.abort(new DOMException(`not within ${ms} ms`, "TimeoutError"));
  };
  const timer = ms === undefined ? undefined : setTimeout(expire, ms);
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
