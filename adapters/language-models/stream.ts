import { ProviderError } from "gantry";
import type { ModelChunk, ModelRequest } from "gantry/plugin";
import { AnswerBuilder, type AnswerContext } from "./answer.js";
import { toProviderError } from "./errors.js";
import type { PartSource } from "./reading/answer-body.js";

export interface Attempt {
  readonly context: AnswerContext;
  /** Sends the request. Rejects with the provider's error, or with the reason of an abort. */
  send(): Promise<PartSource>;
  /** Whether a changed request may succeed. Called with the error if the answer has no output yet. */
  shouldRetry(fault: ProviderError): boolean;
}

/**
 * Sends a request and yields the chunks of the answer. Before the first chunk, a failed attempt is repeated if
 * `shouldRetry` returns true. Rejects with `ProviderError`, or with the signal's reason. One generator does everything,
 * because each further generator costs a promise per token.
 */
export async function* streamAnswer(
  createAttempt: () => Promise<Attempt>,
  request: ModelRequest,
  signal: AbortSignal,
): AsyncGenerator<ModelChunk, void, undefined> {
  for (;;) {
    signal.throwIfAborted();
    const { send, context, shouldRetry } = await createAttempt();
    let hasOutput = false;
    let isComplete = false;
    let source: PartSource | undefined;
    try {
      source = await send();
      signal.throwIfAborted();
      const answerBuilder = new AnswerBuilder(context);
      while (!isComplete) {
        const parts = await source.next();
        signal.throwIfAborted();
        // A server that dies, or a proxy that times out, closes the connection like after a complete answer.
        if (parts === undefined)
          throw new ProviderError(context.provider, "network", "the answer ended before it was finished");
        const chunks: ModelChunk[] = [];
        let fault: ProviderError | undefined;
        try {
          for (const part of parts) answerBuilder.read(part, chunks);
        } catch (error) {
          fault = toProviderError(error, context);
        }
        isComplete = answerBuilder.finishPart !== undefined;
        // Emit the output from before the error.
        for (const chunk of chunks) {
          hasOutput = true;
          yield chunk;
          signal.throwIfAborted();
        }
        if (fault !== undefined) throw fault;
      }
      for (const chunk of await answerBuilder.end(request)) {
        hasOutput = true;
        yield chunk;
      }
      return;
    } catch (error) {
      // An abort with a custom reason looks like any other error.
      signal.throwIfAborted();
      const fault = toProviderError(error, context);
      if (hasOutput || !shouldRetry(fault)) throw fault;
    } finally {
      // Otherwise the connection of an abandoned answer would never be released.
      source?.release(isComplete);
    }
  }
}
