/** Token counts and money of one or more model calls. `totalTokens = promptTokens + completionTokens`. */
export interface Usage {
  /** Tokens sent, including cached ones. */
  promptTokens: number;
  /** Tokens produced, including reasoning. */
  completionTokens: number;
  totalTokens: number;
  /** USD; 0 when the price is unknown. */
  cost: number;
}
