import type { ModelPrices } from "../../ports/model-provider.js";
import type { Budget, RunResult } from "../../ports/run.js";

/** Limits of a run. */
export interface RunLimits {
  /** Maximum model calls of the main loop. */
  readonly iterations: number;
  /** Maximum stored bytes of the text of one tool output. */
  readonly toolOutputBytes: number;
  /** Budget of each run. */
  readonly budget: Budget;
  /** Budget of all runs of a session together. */
  readonly sessionBudget: SessionBudget;
  /** Price of models without a known price. Undefined: none is assumed. */
  readonly unknownPrice: ModelPrices | undefined;
}

/** Budget of all runs of a session together. */
export type SessionBudget = Pick<Budget, "usd" | "tokens">;

/** The totals of a run that count against its limits. */
export interface RunTotals {
  readonly iterations: number;
}

/** Returns the limit that a run has reached; undefined if it may continue. Called before each further model call. */
export function findReachedLimit(
  limits: RunLimits,
  totals: RunTotals,
): Exclude<RunResult["endedBy"], "model"> | undefined {
  return totals.iterations >= limits.iterations ? "max_iterations" : undefined;
}
