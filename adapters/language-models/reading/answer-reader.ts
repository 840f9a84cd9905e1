import type { Metadata, StreamPart } from "../language-model.js";

/**
 * Reads one answer of one wire. Unknown events and fields of an unexpected type are ignored, because providers change
 * them at any time.
 */
export interface AnswerReader {
  /** Whether the answer is complete, so that a later error of the connection does not matter. */
  readonly isComplete: boolean;
  /** Whether no further relevant event can follow. */
  readonly isOver: boolean;
  /** Reads an event; `name` is its name or `""`. */
  read(event: unknown, name: string, parts: StreamPart[]): void;
  /** Reads an answer that arrived as one JSON value instead of a stream. Returns false if it is not an answer. */
  readComplete(answer: unknown, parts: StreamPart[]): boolean;
  /**
   * Handles the end of the stream; `done`: the server sent `[DONE]`. Adds a `finish` part unless the answer was
   * interrupted.
   */
  end(done: boolean, parts: StreamPart[]): void;
}

/** Token counts of a wire, in the terms of specification v3. */
export interface TokenCounts {
  readonly input: number | undefined;
  readonly output: number | undefined;
  readonly cacheRead?: number;
  readonly cacheWrite?: number;
  readonly reasoning?: number;
  /** The usage as reported, for the cost. */
  readonly raw: unknown;
}

export function createFinishPart(
  reason: { readonly unified: string; readonly raw: string | undefined; readonly message?: string },
  counts: TokenCounts | undefined,
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

/**
 * Splits an answer into blocks of text and reasoning, for wires without blocks: a block ends where the other kind
 * begins.
 */
export class BlockWriter {
  /** Kind of the open block; undefined if no block is open. */
  kind: "text" | "reasoning" | undefined;

  write(kind: "text" | "reasoning", delta: string, parts: StreamPart[], providerMetadata?: Metadata): void {
    if (this.kind !== kind) this.switchTo(kind, parts, providerMetadata);
    parts.push({ type: `${kind}-delta`, id: "0", delta, providerMetadata });
  }

  /** Ends the current block and begins one of `kind`; undefined: only end it. */
  switchTo(kind: "text" | "reasoning" | undefined, parts: StreamPart[], providerMetadata?: Metadata): void {
    if (this.kind !== undefined) parts.push({ type: `${this.kind}-end`, id: "0" });
    this.kind = kind;
    if (kind !== undefined) parts.push({ type: `${kind}-start`, id: "0", providerMetadata });
  }
}
