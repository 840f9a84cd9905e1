import type { ModelPrices } from "../../ports/model-provider.js";
import type { Budget, RunInput } from "../../ports/run.js";
import type { RunLimits, SessionBudget } from "./limits.js";

/** What model calls of a run may spend. */
export interface Purse {
  /** Of the run. */
  readonly run: Budget;
  /** Of all runs of its session. */
  readonly session: SessionBudget;
  /** What a model takes whose price nobody knows. */
  readonly unknownPrice: ModelPrices | undefined;
}

/** Of a run: what is asked for counts where it is less than what the agent allows. */
export function purseOf({ budget, sessionBudget, unknownPrice }: RunLimits, input: Pick<RunInput, "budget">): Purse {
  return { run: smaller(budget, input.budget), session: sessionBudget, unknownPrice };
}

export function isOfMoney({ run, session }: Purse): boolean {
  return run.usd !== undefined || session.usd !== undefined;
}

/** Whether its model calls are counted. */
export function isSpending(purse: Purse): boolean {
  return isOfMoney(purse) || purse.run.tokens !== undefined || purse.session.tokens !== undefined;
}

/** Of each the smaller. */
function smaller(one: Budget, other: Budget = {}): Budget {
  const least = (key: keyof Budget) => {
    const most = Math.min(one[key] ?? Infinity, other[key] ?? Infinity);
    return most === Infinity ? undefined : most;
  };
  return { usd: least("usd"), tokens: least("tokens"), seconds: least("seconds") };
}
