import type { Metadata, StreamPart } from "../language-model.js";

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
  readonly cacheRead?: number;
  readonly cacheWrite?: number;
  readonly reasoning?: number;
  /** The provider's own words, for the cost. */
  readonly raw: unknown;
}

export function finishPart(
  reason: { readonly unified: string; readonly raw: string | undefined; readonly message?: string },
  counts: Counts | undefined,
  providerMetadata?: Metadata,
): StreamPart {
  return {
    type: "finish",
    finishReason: reason,
    usage: counts && {
      inputTokens: { total: counts.input, cacheRead: counts.cacheRead, cacheWrite: counts.cacheWrite },
      outputTokens: { total: counts.output, reasoning: counts.reasoning },
      raw: counts.raw,
    },
    providerMetadata,
  };
}

/** The block of text or of thoughts that an answer is at, where the wire tells no blocks: one begins where the other ends. */
export class Saying {
  kind: "text" | "reasoning" | undefined;

  say(kind: "text" | "reasoning", delta: string, parts: StreamPart[], providerMetadata?: Metadata): void {
    if (this.kind !== kind) this.turn(kind, parts, providerMetadata);
    parts.push({ type: `${kind}-delta`, id: "0", delta, providerMetadata });
  }

  /** End the block, and begin one of `kind`; none where there is none. */
  turn(kind: "text" | "reasoning" | undefined, parts: StreamPart[], providerMetadata?: Metadata): void {
    if (this.kind !== undefined) parts.push({ type: `${this.kind}-end`, id: "0" });
    this.kind = kind;
    if (kind !== undefined) parts.push({ type: `${kind}-start`, id: "0", providerMetadata });
  }
}
