import type { TransportFixture } from "./transport/fixture.js";
import type { Check } from "./check.js";
import { promptRules } from "./transport/prompts.js";
import { TransportHarness, type TransportRules } from "./transport/harness.js";
import { startRules, failingStartRules } from "./transport/start.js";
import { stopRules } from "./transport/stop.js";

/** Returns one check for each rule of the `Transport` contract. All are required. */
export function transportChecks(fixture: TransportFixture): Check[] {
  const rules = [startRules, fixture.createFailing ? failingStartRules : {}, promptRules, stopRules];
  return rules.flatMap(Object.entries<TransportRules[string]>).map(([name, body]) => ({
    name,
    run: async () => {
      const harness = await TransportHarness.create(fixture);
      try {
        await body(harness);
      } finally {
        await harness.close();
      }
    },
  }));
}
