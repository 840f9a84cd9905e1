import type { StreamPart } from "../language-model.js";

/**
 * Reads one answer of one wire. What it does not know, and whatever is of another shape than it should be, is passed over:
 * a provider adds an event or forgets a field on any day, and no answer should die of it.
 */
export interface AnswerReader {
  /** Whether the answer is complete as far as the wire tells, so that what breaks from now on does not matter. */
  readonly complete: boolean;
  /** Whether nothing more will come that counts. */
  readonly over: boolean;
  /** `name`: the name of the event, or empty. */
  read(event: unknown, name: string, parts: StreamPart[]): void;
  /** An answer that came in one piece though a stream was asked for; false: it is none. */
  whole(answer: unknown, parts: StreamPart[]): boolean;
  /** The stream is at its end; `done`: the server said so with `[DONE]`. Adds a `finish` unless the answer broke off. */
  end(done: boolean, parts: StreamPart[]): void;
}

/** Counts as a wire tells them, in the terms of specification v3. */
export interface Counts {
  readonly input: number | undefined;
  readonly output: number | undefined;
  readonly cacheRead?: number | undefined;
  readonly cacheWrite?: number | undefined;
  readonly reasoning?: number | undefined;
  /** The provider's own words, for the cost. */
  readonly raw: unknown;
}

export function finishPart(
  reason: { readonly unified: string; readonly raw: string | undefined; readonly message?: string },
  counts: Counts | undefined,
  providerMetadata?: StreamPart["providerMetadata"],
): StreamPart {
  return {
    type: "finish",
    finishReason: reason,
    ...(counts === undefined
      ? {}
      : {
          usage: {
            inputTokens: { total: counts.input, cacheRead: counts.cacheRead, cacheWrite: counts.cacheWrite },
            outputTokens: { total: counts.output, reasoning: counts.reasoning },
            raw: counts.raw,
          },
        }),
    ...(providerMetadata === undefined ? {} : { providerMetadata }),
  };
}
