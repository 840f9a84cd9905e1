import { isRecord } from "../../base/json.js";
import { InputError } from "../../ports/errors.js";
import type { Budget } from "../../ports/usage.js";
import { BUDGET_LIMITS } from "../../ports/agent-options.js";

/** Checks a budget; undefined is valid. Throws `InputError` with the name of the invalid field. */
export function checkBudget(
  field: string,
  value: unknown,
  keys: readonly (keyof Budget)[] = ["usd", "tokens", "seconds"],
): void {
  if (value === undefined) return;
  if (!isRecord(value)) throw new InputError(field, `an object with any of ${keys.join(", ")}`);
  for (const [key, amount] of Object.entries(value)) {
    if (!(keys as readonly string[]).includes(key))
      throw new InputError(`${field}.${key}`, `one of ${keys.join(", ")}`);
    if (amount === undefined) continue;
    const limit = BUDGET_LIMITS[key as keyof Budget];
    const isInteger = key === "tokens";
    if (typeof amount !== "number" || !(amount > 0) || amount > limit || (isInteger && !Number.isInteger(amount)))
      throw new InputError(`${field}.${key}`, `a ${isInteger ? "whole " : ""}number above 0, at most ${limit}`);
  }
}

/** Checks the prices of a model; undefined is valid. Throws `InputError`. */
export function checkPrices(field: string, value: unknown): void {
  if (value === undefined) return;
  if (!isRecord(value)) throw new InputError(field, "an object with input and output");
  for (const key of ["input", "output"]) {
    const price = value[key];
    if (typeof price !== "number" || !(price >= 0 && price < Infinity))
      throw new InputError(`${field}.${key}`, "USD per million tokens, at least 0");
  }
}
