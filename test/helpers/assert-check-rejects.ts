import assert from "node:assert/strict";
import type { Check } from "gantry/testing";

/**
 * Asserts that the check with this name rejects a wrong adapter with an error other than TypeError, ReferenceError
 * and RangeError.
 */
export async function assertCheckRejects(checks: readonly Check[], name: string): Promise<void> {
  const check = checks.find((candidate) => candidate.name === name);
  assert.ok(check, `there is no check named ${name}`);
  let outcome: unknown = "passed";
  await check.run().catch((error: unknown) => (outcome = error));
  assert.notEqual(outcome, "passed", `"${name}" accepted the wrong adapter`);
  assert.ok(outcome instanceof Error, String(outcome));
  // A mistake in the wrong adapter itself would prove nothing about the check.
  for (const ErrorClass of [TypeError, ReferenceError, RangeError])
    assert.ok(!(outcome instanceof ErrorClass), outcome.stack);
}
