import type { ModelProviderFixture } from "./model-provider/fixture.js";
import type { Check } from "./check.js";
import { answerRules, callRules } from "./model-provider/answers.js";
import { abortRules, faultRules, stallRules } from "./model-provider/ends.js";
import { ProviderHarness, type ProviderRules } from "./model-provider/harness.js";
import { listingRules } from "./model-provider/listing.js";

/** Returns one check for each rule of the `ModelProvider` contract. All are required. */
export function modelProviderChecks(fixture: ModelProviderFixture): Check[] {
  const rules: ProviderRules[] = [
    listingRules,
    answerRules,
    fixture.toolCall ? callRules(fixture.toolCall) : {},
    abortRules,
    fixture.stall ? stallRules(fixture.stall) : {},
    fixture.fault ? faultRules(fixture.fault) : {},
  ];
  return rules.flatMap(Object.entries<ProviderRules[string]>).map(([name, body]) => ({
    name,
    run: async () => {
      const harness = await ProviderHarness.create(fixture);
      try {
        await body(harness);
      } finally {
        await harness.close();
      }
    },
  }));
}
