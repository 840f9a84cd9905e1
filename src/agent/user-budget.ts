import { nowMs, type SharedClock } from "../base/clock.js";
import { BudgetExceededError } from "../ports/errors.js";
import type { RunInput, RunRecord } from "../ports/run.js";
import type { User } from "../ports/user.js";

const PAGE_SIZE = 100;

/** The agent's members that the budget uses. */
interface BudgetAgent {
  readonly runs: { list(query: { startedBy: string; limit: number; before?: RunRecord }): Promise<RunRecord[]> };
}

/**
 * Returns the input with a budget of at most what is left of the user's budget for the day (UTC). The usage of subagents
 * is part of the run that started them. Rejects with `BudgetExceededError` if nothing is left.
 *
 * Runs that are active at the same time each get what was left at their start, so together they can exceed the budget.
 */
export async function limitToDailyBudget(
  { runs }: BudgetAgent,
  { name, dailyBudget }: User,
  input: RunInput,
  clock: SharedClock,
): Promise<RunInput> {
  if (dailyBudget === undefined) return input;
  const dayStart = `${new Date(nowMs(clock)).toISOString().slice(0, 10)}T00:00:00.000Z`;
  let spentCost = 0;
  for (let before: RunRecord | undefined; ;) {
    const page = await runs.list({ startedBy: name, limit: PAGE_SIZE, ...(before && { before }) });
    const todaysRuns = page.filter(({ startedAt }) => startedAt >= dayStart);
    for (const { user, usage } of todaysRuns) if (user === name) spentCost += usage.cost;
    before = page.at(-1);
    if (todaysRuns.length < PAGE_SIZE || !before) break;
  }
  const remaining = dailyBudget - spentCost;
  if (remaining <= 0) throw new BudgetExceededError();
  return { ...input, budget: { ...input.budget, usd: Math.min(remaining, input.budget?.usd ?? Infinity) } };
}
