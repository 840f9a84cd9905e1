import type { ModelPrices } from "../../ports/model-provider.js";
import type { Budget, RunResult } from "../../ports/run.js";

/** What a run may take at most. */
export interface RunLimits {
  /** Model calls of the main loop. */
  readonly iterations: number;
  /** Bytes kept of a tool's text. */
  readonly toolOutputBytes: number;
  /** Of each run. */
  readonly budget: Budget;
  /** Of all runs of a session together. */
  readonly sessionBudget: SessionBudget;
  /** What a model takes whose price nobody knows. */
  readonly unknownPrice: ModelPrices | undefined;
}

/** What all runs of a session may cost together. */
export type SessionBudget = Pick<Budget, "usd" | "tokens">;

/** What of a run counts against its limits. */
export interface Spending {
  readonly iterations: number;
}

/** The limit that a run has come to, asked before each further model call; undefined while it may go on. */
export function limitReached(limits: RunLimits, spent: Spending): Exclude<RunResult["endedBy"], "model"> | undefined {
  return spent.iterations >= limits.iterations ? "max_iterations" : undefined;
}
