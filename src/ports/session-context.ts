/** Name of a part of the context. */
export type ContextPartName = "system" | "instructions" | "tools" | "messages" | "tool_outputs";

/** The content of the next model call of a session, in tokens. */
export interface SessionContext {
  /** Size of the model's context window in tokens, for prompt and answer together. */
  window: number;
  /** Tokens of the prompt: the sum of `parts`. */
  used: number;
  /** Tokens of a prompt above which the conversation is compacted. Null: compaction is disabled. */
  compactionAt: number | null;
  /**
   * Whether all tokens are estimated. Otherwise the provider counted the prompt of the last call and its answer, and
   * only later messages are estimated.
   */
  estimated: boolean;
  /**
   * The tokens by origin: gantry's own instructions, instruction files and skills, descriptions of tools, messages with
   * tool calls, results of tools. A count of the provider is split in proportion to the estimates.
   */
  parts: readonly { readonly name: ContextPartName; readonly tokens: number }[];
}
