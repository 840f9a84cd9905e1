import type { ReasoningEffort } from "../ports/model-provider.js";

/** Every effort, the least first; `""` is the model's own. */
export const EFFORTS: readonly ReasoningEffort[] = ["", "minimal", "low", "medium", "high", "xhigh", "max"];

/** What most models do by themselves: of two efforts as near, the one that is nearer to it is taken. */
const USUAL = EFFORTS.indexOf("high");

/** The effort of those that a model offers that is nearest to the one asked for; `""` where it offers none, the one asked for where nobody knows. */
export function nearestEffort(
  asked: ReasoningEffort,
  offered: readonly ReasoningEffort[] | undefined,
): ReasoningEffort {
  if (asked === "" || offered === undefined || offered.includes(asked)) return asked;
  const at = EFFORTS.indexOf(asked);
  const far = (effort: ReasoningEffort): number => Math.abs(EFFORTS.indexOf(effort) - at);
  const unusual = (effort: ReasoningEffort): number => Math.abs(EFFORTS.indexOf(effort) - USUAL);
  const [nearest = ""] = offered
    .filter((effort) => effort !== "")
    .sort((a, b) => far(a) - far(b) || unusual(a) - unusual(b));
  return nearest;
}
