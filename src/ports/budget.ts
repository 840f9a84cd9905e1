/** What a run may cost at most; whatever is left out has no bound. */
export interface Budget {
  /** USD of all its model calls. */
  usd?: number | undefined;
  /** Prompt and completion tokens of all its model calls. */
  tokens?: number | undefined;
  /** Of wall time, the wait for people's answers left out. */
  seconds?: number | undefined;
}

/** What ended a run that succeeded: its model had no more to do, or it came to a limit. */
export type EndedBy = "model" | "max_iterations" | "budget";
