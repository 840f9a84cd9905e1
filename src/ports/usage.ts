/** Token counts and money of one or more model calls. `totalTokens = promptTokens + completionTokens`. */
export interface Usage {
  /** Tokens sent, cached ones included. */
  promptTokens: number;
  /** Tokens produced, reasoning included. */
  completionTokens: number;
  totalTokens: number;
  /** USD; 0 when the price is unknown. */
  cost: number;
}
