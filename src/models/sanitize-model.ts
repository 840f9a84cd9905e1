import { isRecord } from "../base/json.js";
import type { Model } from "../ports/model-provider.js";
import { EFFORTS } from "./efforts.js";

/**
 * The models among values of an untrusted source, without invalid numbers, prices and efforts, which would be used in
 * calculations. Lists of providers and damaged cache files may contain such values.
 */
export function sanitizeModels(values: readonly unknown[]): Model[] {
  return values.filter(isModel).map(sanitizeModel);
}

function isModel(value: unknown): value is Model {
  if (!isRecord(value)) return false;
  const { id, name, ownedBy, efforts } = value;
  return (
    [id, name, ownedBy].every((field) => typeof field === "string") && (efforts === undefined || Array.isArray(efforts))
  );
}

function sanitizeModel(model: Model): Model {
  const { contextWindow, maxOutput, efforts, prices, ...otherFields } = model;
  const isCount = (value: unknown): boolean => typeof value === "number" && value >= 1;
  const validEfforts = efforts?.filter(
    (effort: string) => effort !== "" && (EFFORTS as readonly string[]).includes(effort),
  );
  const arePrices =
    isRecord(prices) &&
    [prices.input, prices.output, prices.cacheRead ?? 0, prices.cacheWrite ?? 0].every(
      (price) => Number.isFinite(price) && price >= 0,
    );
  return {
    ...otherFields,
    ...(isCount(contextWindow) && { contextWindow: contextWindow! }),
    ...(isCount(maxOutput) && { maxOutput: maxOutput! }),
    // An empty list means that the model has no efforts. Keep it only if the source list was empty.
    ...(validEfforts && validEfforts.length >= Math.min(efforts?.length ?? 0, 1) && { efforts: validEfforts }),
    ...(arePrices && { prices }),
  };
}
