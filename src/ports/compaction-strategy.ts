import type { Message, ModelMessage } from "./message.js";

/** What a strategy is given when a conversation has outgrown the model's window. */
export interface CompactionInput {
  /** What the model sees now, in order; each tool result right behind the answer that called for it. */
  readonly messages: readonly Message[];
  /** The result should be at most so many tokens, as `estimate` counts; what is more is cut by the kernel. */
  readonly budget: number;
  /** How many of the newest messages the user wants kept. */
  readonly keepMessages: number;
  /** What whoever asked for the compaction wants kept, in their words; `""` for nothing special, undefined where nobody asked. */
  readonly wanted?: string | undefined;
  /** Tokens of messages: bytes / 3. */
  readonly estimate: (messages: readonly ModelMessage[]) => number;
  /**
   * Ask the session's model one question, without tools; its text. A question too long for the window is cut in the
   * middle. The usage counts to the run. Rejects with the provider's error or the signal's reason.
   */
  readonly ask: (
    question: { system: string; message: string; maxTokens: number },
    signal: AbortSignal,
  ) => Promise<string>;
}

/** How a conversation that outgrew the model's window is made smaller. */
export interface CompactionStrategy {
  /** Told in the `compaction` event. */
  readonly name: string;
  /**
   * The conversation that the model sees from now on. Messages that stay, whole or shortened, keep their `id`; others
   * are new. A tool call and its result stay or go together. What the result lacks of these rules the kernel mends.
   * A rejection makes the built-in `sliding-window` do it instead; the signal's abort ends the run.
   */
  compact(input: CompactionInput, signal: AbortSignal): Promise<ModelMessage[]>;
}
