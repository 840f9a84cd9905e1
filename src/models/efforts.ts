import type { ReasoningEffort } from "../ports/model-provider.js";

/** All efforts in ascending order; `""` is the model's default. */
export const EFFORTS: readonly ReasoningEffort[] = ["", "minimal", "low", "medium", "high", "xhigh", "max"];

/** Index of most models' default. If two efforts have the same distance, the one closer to this default is used. */
const DEFAULT_EFFORT_INDEX = EFFORTS.indexOf("high");

/**
 * Returns the offered effort that is nearest to the requested effort. Returns `""` if the model offers no efforts, and
 * the requested effort if the offered efforts are undefined.
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
