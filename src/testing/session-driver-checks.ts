import type { SessionDriver } from "../ports/session-driver.js";
import type { Check } from "./check.js";
import { chainRules } from "./session-driver/chains.js";
import { changeRules } from "./session-driver/changes.js";
import { leaseRules } from "./session-driver/leases.js";
import { listRules } from "./session-driver/lists.js";
import { messageRules } from "./session-driver/messages.js";
import { Store } from "./session-driver/rule.js";
import { sessionRules } from "./session-driver/sessions.js";
import { sharingRules } from "./session-driver/sharing.js";
import { textRules } from "./session-driver/texts.js";
import { transferRules } from "./session-driver/transfer.js";

/** How the checks get at a driver. Every function may take its time; none is called while another one runs. */
export interface SessionDriverFixture {
  /** A store that is empty, and a driver on it, opened. Called once at the start of every check. */
  create(): Promise<SessionDriver>;
  /** Another opened driver on the store of `driver`, which stays open: what a second process would have. */
  second(driver: SessionDriver): Promise<SessionDriver>;
  /** An opened driver on the store of `driver`, which the check has closed: what a restarted process would have. */
  reopen(driver: SessionDriver): Promise<SessionDriver>;
  /** Remove what `create` left behind. Called at the end of every check, when it has closed every driver, also a failed one. */
  clean(): Promise<void>;
}

/** Every rule of the `SessionDriver` contract, one check each. All are required. */
export function sessionDriverChecks(fixture: SessionDriverFixture): Check[] {
  const rules = [
    ...sessionRules,
    ...listRules,
    ...messageRules,
    ...changeRules,
    ...chainRules,
    ...leaseRules,
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
