import { ProviderError } from "gantry";
import type { ModelChunk, ModelRequest } from "gantry/plugin";
import { Answer, type Reading } from "./answer.js";
import { toProviderError } from "./errors.js";
import type { PartSource } from "./reading/answer-body.js";

/** One try at a question. */
export interface Attempt {
  readonly reading: Reading;
  /** Rejects with anything: a fault of the provider, an abort. */
  ask(): Promise<PartSource>;
  /** Whether to try once more, otherwise: called with what the provider said while it had told nothing yet. */
  again(fault: ProviderError): boolean;
}

/** Ask a model and give its answer as the kernel knows it. One generator for all: each more would cost every token a promise. */
export async function* streamAnswer(
  attempt: () => Promise<Attempt>,
  request: ModelRequest,
  signal: AbortSignal,
): AsyncGenerator<ModelChunk, void, undefined> {
  for (;;) {
    signal.throwIfAborted();
    const { ask, reading, again } = await attempt();
    const answer = new Answer(reading);
    let begun = false;
    let source: PartSource | undefined;
    try {
      source = await ask();
      signal.throwIfAborted();
      while (answer.finish === undefined) {
        const parts = await source.next();
        signal.throwIfAborted();
        // A server that dies, or a proxy that gives up, closes the connection as if all had been said.
        if (parts === undefined)
          throw new ProviderError(reading.provider, "network", "the answer ended before it was finished");
        const chunks: ModelChunk[] = [];
        let fault: ProviderError | undefined;
        try {
          for (const part of parts) answer.read(part, chunks);
        } catch (error) {
          fault = toProviderError(error, reading);
        }
        // What was said before the fault is told.
        for (const chunk of chunks) {
          begun = true;
          yield chunk;
          signal.throwIfAborted();
        }
        if (fault !== undefined) throw fault;
      }
      for (const chunk of await answer.end(request)) {
        begun = true;
        yield chunk;
      }
      return;
    } catch (error) {
      // With a reason of one's own an abort looks like any other error.
      signal.throwIfAborted();
      const fault = toProviderError(error, reading);
      if (begun || !again(fault)) throw fault;
    } finally {
      // Nothing else would free the connection of an answer that nobody reads on.
      source?.leave(answer.finish !== undefined);
    }
  }
}
