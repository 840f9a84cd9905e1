import { isRecord } from "../base/json.js";
import type { Model } from "../ports/model-provider.js";
import { EFFORTS } from "./efforts.js";

/** Whether something that came from outside is a model. */
export function isModel(value: unknown): value is Model {
  if (!isRecord(value)) return false;
  const { id, name, ownedBy, efforts } = value;
  return (
    [id, name, ownedBy].every((one) => typeof one === "string") && (efforts === undefined || Array.isArray(efforts))
  );
}

/** Without what no model can have, of whoever's list or of a file that was damaged: it would be counted with. */
export function believed(model: Model): Model {
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
    // None at all says something else.
    ...(known && known.length >= Math.min(efforts?.length ?? 0, 1) && { efforts: known }),
    ...(arePrices && { prices }),
  };
}
