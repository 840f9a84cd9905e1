import type { AiSdkModel, StreamPart } from "./language-model.js";
import type { PartSource } from "./reading/answer-body.js";

/** Sends a request through a package that reads the answers itself. */
export async function askPackage(
  model: AiSdkModel,
  options: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
): Promise<PartSource> {
  const pendingResult = model.doStream({ ...options, abortSignal: signal });
  const { stream } = await untilAbort(
    pendingResult,
    signal,
    ({ stream: late }) => void late.cancel().catch(() => undefined),
  );
  const reader = stream.getReader();
  const leave = (reason?: unknown): void => void reader.cancel(reason).catch(() => undefined);
  // Settles a pending read at once, even if the package ignores the signal.
  const onAbort = (): void => leave(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  return {
    async next() {
      const { done, value } = await reader.read();
      return done ? undefined : [value as StreamPart];
    },
    release() {
      signal.removeEventListener("abort", onAbort);
      leave();
    },
  };
}

/**
 * Resolves like the promise, or rejects with the reason of an abort. A later result is passed to the callback to be
 * discarded.
 */
async function untilAbort<T>(promise: PromiseLike<T>, signal: AbortSignal, discard: (late: T) => void): Promise<T> {
  let onAbort = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => {
      reject(signal.reason as Error);
      void promise.then(discard, () => undefined);
    };
    signal.addEventListener("abort", onAbort, { once: true });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
    aborted.catch(() => undefined);
  }
}
