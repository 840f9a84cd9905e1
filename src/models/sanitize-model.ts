import { isRecord } from "../base/json.js";
import type { Model } from "../ports/model-provider.js";
import { EFFORTS } from "./efforts.js";

/** Whether a value from an untrusted source is a model. */
export function isModel(value: unknown): value is Model {
  if (!isRecord(value)) return false;
  const { id, name, ownedBy, efforts } = value;
  return (
    [id, name, ownedBy].every((one) => typeof one === "string") && (efforts === undefined || Array.isArray(efforts))
  );
}

/**
 * Removes invalid numbers, prices and efforts. Lists of providers and damaged cache files may contain them, and they
 * would be used in calculations.
 */
export function sanitizeModel(model: Model): Model {
  const { contextWindow, maxOutput, efforts, prices, ...rest } = model;
  const isCount = (value: unknown): boolean => typeof value === "number" && value >= 1;
  const known = efforts?.filter((one: string) => one !== "" && (EFFORTS as readonly string[]).includes(one));
  const arePrices =
    isRecord(prices) &&
    [prices.input, prices.output, prices.cacheRead ?? 0, prices.cacheWrite ?? 0].every(
      (price) => Number.isFinite(price) && price >= 0,
    );
  return {
    ...rest,
    ...(isCount(contextWindow) && { contextWindow: contextWindow! }),
    ...(isCount(maxOutput) && { maxOutput: maxOutput! }),
    // An empty list means that the model has no efforts. Keep it only if the source list was empty.
    ...(known && known.length >= Math.min(efforts?.length ?? 0, 1) && { efforts: known }),
    ...(arePrices && { prices }),
  };
}
