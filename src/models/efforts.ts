import type { ReasoningEffort } from "../ports/model-provider.js";

/** All efforts in ascending order; `""` is the model's default. */
export const EFFORTS: readonly ReasoningEffort[] = ["", "minimal", "low", "medium", "high", "xhigh", "max"];

/**
 * The default of most models. If two efforts are equally far from the requested effort, the one closer to the
 * default is used.
 */
const USUAL = EFFORTS.indexOf("high");

/**
 * Returns the offered effort that is nearest to the requested one. Returns `""` if the model offers none, and the
 * requested effort if the offer is unknown.
 */
export function nearestEffort(
  requestedEffort: ReasoningEffort,
  offered: readonly ReasoningEffort[] | undefined,
): ReasoningEffort {
  if (requestedEffort === "" || offered === undefined || offered.includes(requestedEffort)) return requestedEffort;
  const at = EFFORTS.indexOf(requestedEffort);
  const far = (effort: ReasoningEffort): number => Math.abs(EFFORTS.indexOf(effort) - at);
  const unusual = (effort: ReasoningEffort): number => Math.abs(EFFORTS.indexOf(effort) - USUAL);
  const [nearest = ""] = offered
    .filter((effort) => effort !== "")
    .sort((a, b) => far(a) - far(b) || unusual(a) - unusual(b));
  return nearest;
}
