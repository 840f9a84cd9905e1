import { abortable } from "gantry/plugin";
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
  const pendingResult = Promise.resolve(model.doStream({ ...options, abortSignal: signal }));
  const { stream } = await abortable(pendingResult, signal).catch((error: unknown) => {
    // A package that ignores the signal may return a stream after the abort.
    void pendingResult.then(({ stream: lateStream }) => lateStream.cancel()).catch(() => undefined);
    throw error;
  });
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
