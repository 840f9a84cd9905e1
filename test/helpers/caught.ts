import assert from "node:assert/strict";
import type { Check } from "gantry/testing";

/** Asserts that the check of this name, and so the kit, refuses a wrong adapter: by an assertion, not by an accident. */
export async function assertCaught(checks: readonly Check[], name: string): Promise<void> {
  const check = checks.find((one) => one.name === name);
  assert.ok(check, `there is no check named ${name}`);
  let outcome: unknown = "passed";
  await check.run().catch((error: unknown) => (outcome = error));
  assert.notEqual(outcome, "passed", `"${name}" let it pass`);
  assert.ok(outcome instanceof Error, String(outcome));
  // A mistake in the wrong adapter itself says nothing of the check.
  for (const Mistake of [TypeError, ReferenceError, RangeError])
    assert.ok(!(outcome instanceof Mistake), outcome.stack);
}
