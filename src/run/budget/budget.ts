import type { ModelPrices } from "../../ports/model-provider.js";
import type { Budget, RunInput } from "../../ports/run.js";
import type { RunLimits, SessionBudget } from "./limits.js";

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
