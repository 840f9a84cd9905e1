import type { AiSdkModel, StreamPart } from "./language-model.js";
import type { PartSource } from "./reading/answer-body.js";

/**
 * Sends a request through a package that reads the answers itself. Rejects with the package's error or the abort
 * reason.
 */
export async function sendToPackage(
  model: AiSdkModel,
  options: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
): Promise<PartSource> {
  const pendingResult = model.doStream({ ...options, abortSignal: signal });
  const { stream } = await raceAbort(
    pendingResult,
    signal,
    ({ stream: lateStream }) => void lateStream.cancel().catch(() => undefined),
  );
  const reader = stream.getReader();
  const cancelReader = (reason?: unknown): void => void reader.cancel(reason).catch(() => undefined);
  // Settles a pending read at once, even if the package ignores the signal.
  const onAbort = (): void => cancelReader(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  return {
    async next() {
      const { done, value } = await reader.read();
      return done ? undefined : [value as StreamPart];
    },
    release() {
      signal.removeEventListener("abort", onAbort);
      cancelReader();
    },
  };
}

/**
 * Resolves like the promise, or rejects with the reason of an abort. Passes a result that arrives after the abort to
 * `discard`.
 */
async function raceAbort<T>(
  promise: PromiseLike<T>,
  signal: AbortSignal,
  discard: (lateResult: T) => void,
): Promise<T> {
  let onAbort = (): void => undefined;
  const abortPromise = new Promise<never>((_, reject) => {
    onAbort = () => {
      reject(signal.reason as Error);
      void promise.then(discard, () => undefined);
    };
    signal.addEventListener("abort", onAbort, { once: true });
  });
  try {
    return await Promise.race([promise, abortPromise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
    abortPromise.catch(() => undefined);
  }
}
