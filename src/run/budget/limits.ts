import type { ModelPrices } from "../../ports/model-provider.js";
import type { Budget } from "../../ports/usage.js";
import type { RunInput, RunResult } from "../../ports/run.js";

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

/** Budget of the model calls of a run. */
export interface BudgetLimits {
  /** Budget of the run. */
  readonly run: Budget;
  /** Budget of all runs of the session together. */
  readonly session: SessionBudget;
  /** Price of models without a known price. Undefined: none is assumed. */
  readonly unknownPrice: ModelPrices | undefined;
}

/** Resolves the budget of a run: the lower of the requested and the agent's budget, for each resource. */
export function resolveBudget(
  { budget, sessionBudget, unknownPrice }: RunLimits,
  input: Pick<RunInput, "budget">,
): BudgetLimits {
  return { run: combineBudgets(budget, input.budget), session: sessionBudget, unknownPrice };
}

export function hasCostLimit({ run, session }: BudgetLimits): boolean {
  return run.usd !== undefined || session.usd !== undefined;
}

/** Whether the model calls of the run are counted. */
export function isMetered(limits: BudgetLimits): boolean {
  return hasCostLimit(limits) || limits.run.tokens !== undefined || limits.session.tokens !== undefined;
}

/** Returns the lower limit for each resource; undefined for a resource without a limit. */
function combineBudgets(agentBudget: Budget, requestedBudget: Budget = {}): Budget {
  const findLowerLimit = (key: keyof Budget) => {
    const limit = Math.min(agentBudget[key] ?? Infinity, requestedBudget[key] ?? Infinity);
    return limit === Infinity ? undefined : limit;
  };
  return { usd: findLowerLimit("usd"), tokens: findLowerLimit("tokens"), seconds: findLowerLimit("seconds") };
}
