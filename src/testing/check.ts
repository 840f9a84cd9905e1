import assert from "node:assert/strict";
import type { GantryError } from "../errors.js";

/** One rule that an adapter keeps, for any test runner: `for (const check of checks) it(check.name, check.run)`. */
export interface Check {
  readonly name: string;
  /** Rejects, with an assertion that says what is wrong, when the rule is broken. */
  run(): Promise<void>;
}

/** Assert that `promise` rejects with a gantry error of this code, and give the error back. */
export async function rejectsWith(promise: Promise<unknown>, code: GantryError["code"], why: string): Promise<void> {
  let outcome: { error: unknown } | undefined;
  try {
    await promise;
  } catch (error) {
    outcome = { error };
  }
  assert.ok(outcome, `${why}: expected an error with code ${code}, but it resolved`);
  const { error } = outcome;
  const actual = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  assert.equal(actual, code, `${why}: expected an error with code ${code}, got ${String(error)}`);
}
