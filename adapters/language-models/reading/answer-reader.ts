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
  /** Adds the parts of an event to `parts`. `name`: the event's name, or `""`. */
  read(event: unknown, name: string, parts: StreamPart[]): void;
  /** Reads an answer that arrived as one JSON value instead of a stream. Returns false for another value. */
  readComplete(answer: unknown, parts: StreamPart[]): boolean;
  /**
   * Handles the end of the stream. `isDone`: the server sent `[DONE]`. Adds a `finish` part unless the answer was
   * interrupted.
   */
  end(isDone: boolean, parts: StreamPart[]): void;
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

/** `counts`: undefined if the provider reported no usage. */
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

  /** Ends the current block and starts a block of `kind`; undefined: starts no block. */
  switchTo(kind: "text" | "reasoning" | undefined, parts: StreamPart[], providerMetadata?: Metadata): void {
    if (this.kind !== undefined) parts.push({ type: `${this.kind}-end`, id: "0" });
    this.kind = kind;
    if (kind !== undefined) parts.push({ type: `${kind}-start`, id: "0", providerMetadata });
  }
}
