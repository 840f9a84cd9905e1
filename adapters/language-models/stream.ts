import { ProviderError } from "gantry";
import type { ModelChunk, ModelRequest } from "gantry/plugin";
import { AnswerBuilder, type AnswerContext } from "./answer.js";
import { toProviderError } from "./errors.js";
import type { PartSource } from "./reading/answer-body.js";

/** An attempt of a request. */
export interface Attempt {
  readonly context: AnswerContext;
  /** Sends the request. Rejects with the provider's error, or with the reason of an abort. */
  send(): Promise<PartSource>;
  /** Whether a changed request may succeed. Called with the error if the answer has no output yet. */
  shouldRetry(fault: ProviderError): boolean;
}

/**
 * Sends a request and yields the chunks of the answer. One generator does everything, because each further generator
 * costs a promise per token.
 */
export async function* streamAnswer(
  createAttempt: () => Promise<Attempt>,
  request: ModelRequest,
  signal: AbortSignal,
): AsyncGenerator<ModelChunk, void, undefined> {
  for (;;) {
    signal.throwIfAborted();
    const { send, context, shouldRetry } = await createAttempt();
    const answer = new AnswerBuilder(context);
    let hasOutput = false;
    let source: PartSource | undefined;
    try {
      source = await send();
      signal.throwIfAborted();
      while (answer.finish === undefined) {
        const parts = await source.next();
        signal.throwIfAborted();
        // A server that dies, or a proxy that times out, closes the connection like after a complete answer.
        if (parts === undefined)
          throw new ProviderError(context.provider, "network", "the answer ended before it was finished");
        const chunks: ModelChunk[] = [];
        let fault: ProviderError | undefined;
        try {
          for (const part of parts) answer.read(part, chunks);
        } catch (error) {
          fault = toProviderError(error, context);
        }
        // Emit the output from before the error.
        for (const chunk of chunks) {
          hasOutput = true;
          yield chunk;
          signal.throwIfAborted();
        }
        if (fault !== undefined) throw fault;
      }
      for (const chunk of await answer.end(request)) {
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
      source?.release(answer.finish !== undefined);
    }
  }
}
