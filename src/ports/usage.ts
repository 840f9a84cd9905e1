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

/** Upper limits of a run. An absent field has no limit. */
export interface Budget {
  /** USD, summed over all model calls of the run. */
  usd?: number | undefined;
  /** Prompt and completion tokens, summed over all model calls of the run. */
  tokens?: number | undefined;
  /** Wall time in seconds, without the time spent waiting for people's answers. */
  seconds?: number | undefined;
}

/** Why a successful run ended: the model finished, or the run reached a limit. */
export type EndedBy = "model" | "max_iterations" | "budget";
