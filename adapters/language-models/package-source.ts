import type { AiSdkModel, StreamPart } from "./language-model.js";
import type { PartSource } from "./reading/answer-body.js";

/** Ask a model of a package that reads its answers itself. */
export async function askPackage(
  model: AiSdkModel,
  options: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
): Promise<PartSource> {
  const asked = model.doStream({ ...options, abortSignal: signal });
  const { stream } = await untilAbort(asked, signal, ({ stream: late }) => void late.cancel().catch(() => undefined));
  const reader = stream.getReader();
  const leave = (reason?: unknown): void => void reader.cancel(reason).catch(() => undefined);
  // Settles a pending read at once, also where the package does not listen to the signal.
  const onAbort = (): void => leave(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  return {
    async next() {
      const { done, value } = await reader.read();
      return done ? undefined : [value as StreamPart];
    },
    leave() {
      signal.removeEventListener("abort", onAbort);
      leave();
    },
  };
}

/** The promise, or a rejection with the reason of an abort; what comes after that is let go of. */
async function untilAbort<T>(promise: PromiseLike<T>, signal: AbortSignal, letGo: (late: T) => void): Promise<T> {
  let onAbort = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => {
      reject(signal.reason as Error);
      void promise.then(letGo, () => undefined);
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
