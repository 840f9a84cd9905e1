import { isRecord } from "../base/json.js";
import { InputError } from "../ports/errors.js";
import type { ModelPrices } from "../ports/model-provider.js";
import type { Budget, RunResult } from "../ports/run.js";
import { BUDGET_LIMITS } from "./defaults.js";

/** What a run may take at most. */
export interface RunLimits {
  /** Model calls of the main loop. */
  readonly iterations: number;
  /** Bytes kept of a tool's text. */
  readonly toolOutputBytes: number;
  /** Of each run. */
  readonly budget: Budget;
  /** Of all runs of a session together. */
  readonly sessionBudget: SessionBudget;
  /** What a model takes whose price nobody knows. */
  readonly unknownPrice: ModelPrices | undefined;
}

/** What all runs of a session may cost together. */
export type SessionBudget = Pick<Budget, "usd" | "tokens">;

/** What of a run counts against its limits. */
export interface Spending {
  readonly iterations: number;
}

/** The limit that a run has come to, asked before each further model call; undefined while it may go on. */
export function limitReached(limits: RunLimits, spent: Spending): Exclude<RunResult["endedBy"], "model"> | undefined {
  return spent.iterations >= limits.iterations ? "max_iterations" : undefined;
}

/** Throws `InputError`, which names the field. */
export function checkBudget(
  field: string,
  value: unknown,
  keys: readonly (keyof Budget)[] = ["usd", "tokens", "seconds"],
): void {
  if (value === undefined) return;
  if (!isRecord(value)) throw new InputError(field, `an object with any of ${keys.join(", ")}`);
  for (const [key, most] of Object.entries(value)) {
    if (!(keys as readonly string[]).includes(key))
      throw new InputError(`${field}.${key}`, `one of ${keys.join(", ")}`);
    if (most === undefined) continue;
    const limit = BUDGET_LIMITS[key as keyof Budget];
    const whole = key === "tokens";
    if (typeof most !== "number" || !(most > 0) || most > limit || (whole && !Number.isInteger(most)))
      throw new InputError(`${field}.${key}`, `a ${whole ? "whole " : ""}number above 0, at most ${limit}`);
  }
}

/** Of each the smaller. */
export function smaller(one: Budget, other: Budget = {}): Budget {
  const least = (key: keyof Budget) => {
    const most = Math.min(one[key] ?? Infinity, other[key] ?? Infinity);
    return most === Infinity ? undefined : most;
  };
  return { usd: least("usd"), tokens: least("tokens"), seconds: least("seconds") };
}

/** Throws `InputError`. */
export function checkPrice(field: string, value: unknown): void {
  if (value === undefined) return;
  if (!isRecord(value)) throw new InputError(field, "an object with input and output");
  for (const key of ["input", "output"]) {
    const price = value[key];
    if (typeof price !== "number" || !(price >= 0 && price < Infinity))
      throw new InputError(`${field}.${key}`, "USD per million tokens, at least 0");
  }
}
