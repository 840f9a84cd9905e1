import type { SessionDriverFixture } from "./session-driver/fixture.js";
import type { Check } from "./check.js";
import { askRules } from "./session-driver/asks.js";
import { chainRules } from "./session-driver/chains.js";
import { changeRules } from "./session-driver/changes.js";
import { leaseRules } from "./session-driver/leases.js";
import { listRules } from "./session-driver/lists.js";
import { messageRules } from "./session-driver/messages.js";
import { Store } from "./session-driver/rule.js";
import { runRules } from "./session-driver/runs.js";
import { sessionRules } from "./session-driver/sessions.js";
import { sharingRules } from "./session-driver/sharing.js";
import { textRules } from "./session-driver/texts.js";
import { transferRules } from "./session-driver/transfer.js";

/** Every rule of the `SessionDriver` contract, one check each. All are required. */
export function sessionDriverChecks(fixture: SessionDriverFixture): Check[] {
  const rules = [
    ...sessionRules,
    ...listRules,
    ...messageRules,
    ...changeRules,
    ...chainRules,
    ...leaseRules,
    ...runRules,
    ...askRules,
    ...sharingRules,
    ...textRules,
    ...transferRules,
  ];
  return rules.map(([name, body]) => ({
    name,
    run: async () => {
      const store = await Store.create(fixture);
      try {
        await body(store);
      } finally {
        await store.end();
      }
    },
  }));
}
