import { ProviderError, type ModelChunk, type ModelRequest } from "gantry";
import { Answer, type Reading } from "./answer.js";
import { toProviderError } from "./errors.js";
import type { AiSdkModel, CallOptions, StreamPart } from "./language-model.js";
import { AnswerBody, type PartSource } from "./reading/answer-body.js";
import { Handed } from "./reading/hand-over.js";

/** Ask a model and give its answer as the kernel knows it. */
export async function* streamAnswer(
  model: AiSdkModel,
  options: CallOptions | Readonly<Record<string, unknown>>,
  request: ModelRequest,
  reading: Reading,
  signal: AbortSignal,
): AsyncGenerator<ModelChunk, void, undefined> {
  signal.throwIfAborted();
  let source: PartSource;
  try {
    const asked = model.doStream({ ...options, abortSignal: signal });
    const { stream } = await untilAbort(asked, signal, ({ stream: late }) => void late.cancel().catch(() => undefined));
    source = partsOf(stream);
  } catch (error) {
    if (!(error instanceof Handed) || reading.wire.reader === undefined) {
      // With a reason of one's own an abort looks like any other error.
      signal.throwIfAborted();
      throw toProviderError(error, reading);
    }
    source = new AnswerBody(error, reading.wire.reader(), reading);
  }
  // Settles a pending read at once, also where the package does not listen to the signal.
  const onAbort = (): void => void source.cancel(signal.reason).catch(() => undefined);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  const answer = new Answer(reading);
  try {
    while (answer.finish === undefined) {
      let parts: readonly StreamPart[] | undefined;
      try {
        parts = await source.next();
      } catch (error) {
        signal.throwIfAborted();
        throw toProviderError(error, reading);
      }
      signal.throwIfAborted();
      // A server that dies, or a proxy that gives up, closes the connection as if all had been said.
      if (parts === undefined)
        throw new ProviderError(reading.provider, "network", "the answer ended before it was finished");
      for (const part of parts) {
        yield* answer.read(part);
        signal.throwIfAborted();
      }
    }
    yield* answer.end(request);
  } finally {
    signal.removeEventListener("abort", onAbort);
    // Nothing else would free the connection of an answer that nobody reads on.
    void source.cancel().catch(() => undefined);
  }
}

function partsOf(stream: ReadableStream<unknown>): PartSource {
  const reader = stream.getReader();
  return {
    async next() {
      const { done, value } = await reader.read();
      return done ? undefined : [value as StreamPart];
    },
    cancel: (reason) => reader.cancel(reason),
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
