import type { ReasoningEffort } from "../ports/model-provider.js";

/** All efforts in ascending order; `""` is the model's default. */
export const EFFORTS: readonly ReasoningEffort[] = ["", "minimal", "low", "medium", "high", "xhigh", "max"];

/**
 * The default of most models. If two efforts are equally far from the requested effort, the one closer to the
 * default is used.
 */
const DEFAULT_EFFORT_INDEX = EFFORTS.indexOf("high");

/**
 * Returns the offered effort that is nearest to the requested one. Returns `""` if the model offers none, and the
 * requested effort if the offered efforts are unknown.
 */
export function nearestEffort(
  requestedEffort: ReasoningEffort,
  offeredEfforts: readonly ReasoningEffort[] | undefined,
): ReasoningEffort {
  if (requestedEffort === "" || offeredEfforts === undefined || offeredEfforts.includes(requestedEffort))
    return requestedEffort;
  const requestedIndex = EFFORTS.indexOf(requestedEffort);
  const distanceToRequested = (effort: ReasoningEffort): number => Math.abs(EFFORTS.indexOf(effort) - requestedIndex);
  const distanceToDefault = (effort: ReasoningEffort): number =>
    Math.abs(EFFORTS.indexOf(effort) - DEFAULT_EFFORT_INDEX);
  const [nearestOffered = ""] = offeredEfforts
    .filter((effort) => effort !== "")
    .sort((a, b) => distanceToRequested(a) - distanceToRequested(b) || distanceToDefault(a) - distanceToDefault(b));
  return nearestOffered;
}
