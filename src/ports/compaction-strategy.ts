import type { Message, ModelMessage } from "./message.js";

/**
 * Input of a compaction strategy. The kernel calls the strategy when a conversation exceeds the model's context window.
 */
export interface CompactionInput {
  /**
   * The messages that the model sees now, in order. Each tool result directly follows the answer that called the tool.
   */
  readonly messages: readonly Message[];
  /** Maximum size of the result in tokens, as counted by `estimate`. The kernel truncates a longer result. */
  readonly budget: number;
  /** Number of newest messages to keep, as the user configured. */
  readonly keepMessages: number;
  /** The user's instructions on what to keep. `""`: none. Undefined: the compaction was not requested by a user. */
  readonly instructions?: string | undefined;
  /** Maximum tokens of a question for `ask`: its system prompt, its message and `maxTokens`. Undefined: unknown. */
  readonly maxQuestionTokens?: number | undefined;
  /** Estimates the tokens of messages: bytes / 3. */
  readonly estimate: (messages: readonly ModelMessage[]) => number;
  /**
   * Asks the session's model one question without tools and resolves with the text of the answer. A question longer
   * than `maxQuestionTokens` is truncated in the middle. The usage counts for the run. Rejects with the provider's error
   * or the signal's reason.
   */
  readonly ask: (
    question: { system: string; message: string; maxTokens: number },
    signal: AbortSignal,
  ) => Promise<string>;
}

/** Reduces a conversation that exceeds the model's context window. */
export interface CompactionStrategy {
  /** Reported in the `compaction` event. */
  readonly name: string;
  /**
   * Returns the conversation that the model sees from now on.
   *
   * - Messages that stay, complete or shortened, keep their `id`; all others are new.
   * - A tool call and its result are both kept or both removed.
   *
   * The kernel repairs a result that violates these rules. If `compact` rejects, the kernel uses the built-in
   * `sliding-window` strategy instead. An abort of `signal` ends the run.
   */
  compact(input: CompactionInput, signal: AbortSignal): Promise<ModelMessage[]>;
}
