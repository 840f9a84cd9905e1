/**
 * Calls `listener` once when the signal aborts; at once if it is already aborted. The returned function removes the
 * listener.
 */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  if (signal.aborted) listener();
  else signal.addEventListener("abort", listener, { once: true });
  return () => signal.removeEventListener("abort", listener);
}

/** Settles like `promise`, or rejects with the signal's reason if the signal aborts first. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const removeListener = onAbort(signal, () => reject(signal.reason as Error));
    promise.then(resolve, reject).finally(removeListener);
  });
}

/**
 * Calls `take` with each value of an iterator until the iterator ends, and awaits the promise that `take` may return.
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
    let hasEnded = false;
    const end = () => {
      hasEnded = true;
      removeListener();
    };
    const fail = (reason: unknown) => {
      end();
      reject(reason as Error);
    };
    const takeNext = () => void (hasEnded || values.next().then(onResult, fail));
    const onResult = ({ done, value }: IteratorResult<T, unknown>) => {
      if (hasEnded) return;
      if (done) {
        end();
        resolve();
        return;
      }
      try {
        const takePromise = take(value);
        if (takePromise) takePromise.then(takeNext, fail);
        else takeNext();
      } catch (error) {
        fail(error);
      }
    };
    const removeListener = onAbort(signal, () => {
      hasEnded = true;
      reject(signal.reason as Error);
    });
    takeNext();
  });
}

/** Resolves after `ms` milliseconds. Rejects with the signal's reason if the signal aborts first. */
export function delay(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      removeListener();
      resolve();
    }, ms);
    const removeListener = onAbort(signal, () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    });
  });
}

/** Whether the work settles within `ms` milliseconds, by success or failure. Never rejects. */
export async function settlesWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), ms)));
  const completion = work.then(
    () => true,
    () => true,
  );
  return Promise.race([completion, timeout]).finally(() => clearTimeout(timer));
}

/**
 * A signal that aborts with a `TimeoutError` after a time limit, or when one of the given signals aborts. The user of a
 * deadline calls `clear` at the end.
 */
export interface Deadline {
  readonly signal: AbortSignal;
  /** Whether the time limit was reached before another signal aborted. */
  readonly hasExpired: boolean;
  /** Stops the timer and removes the listeners from the given signals. */
  clear(): void;
}

/**
 * Creates a deadline of `ms` milliseconds. If `ms` is undefined, only `signals` abort the deadline's signal.
 *
 * Unlike `AbortSignal.timeout`, the timer keeps the process alive. Unlike `AbortSignal.any` of such a signal, it always
 * fires: the garbage collector of Node 20 removes timeouts that only `AbortSignal.any` refers to (nodejs/node#54614).
 */
export function createDeadline(ms: number | undefined, ...signals: AbortSignal[]): Deadline {
  const controller = new AbortController();
  let expired = false;
  const listenerRemovals = signals.map((signal) => onAbort(signal, () => controller.abort(signal.reason)));
  const expire = () => {
    expired = !controller.signal.aborted;
    controller.abort(new DOMException(`not within ${ms} ms`, "TimeoutError"));
  };
  const timer = ms === undefined ? undefined : setTimeout(expire, ms);
  const clear = () => {
    clearTimeout(timer);
    for (const removeListener of listenerRemovals) removeListener();
  };
  if (controller.signal.aborted) clear();
  return {
    signal: controller.signal,
    get hasExpired() {
      return expired;
    },
    clear,
  };
}

/**
 * Calls `work` with a signal that aborts after `ms` milliseconds, or with `signal`. Resolves with the result, or with
 * undefined at the time limit, even if the work continues. Rejects with the error of `work` or the reason of `signal`.
 */
export async function withTimeLimit<T>(
  ms: number,
  signal: AbortSignal | undefined,
  work: (limitedSignal: AbortSignal) => Promise<T>,
): Promise<T | undefined> {
  const limit = createDeadline(ms, ...(signal ? [signal] : []));
  try {
    return await abortable(work(limit.signal), limit.signal);
  } catch (error) {
    signal?.throwIfAborted();
    if (!limit.hasExpired) throw error;
    return undefined;
  } finally {
    limit.clear();
  }
}
