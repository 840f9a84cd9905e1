import type { SessionDriverFixture } from "./session-driver/fixture.js";
import type { Check } from "./check.js";
import { askRules } from "./session-driver/asks.js";
import { chainRules } from "./session-driver/chains.js";
import { changeRules } from "./session-driver/changes.js";
import { headRules } from "./session-driver/heads.js";
import { leaseRules } from "./session-driver/leases.js";
import { lifecycleRules } from "./session-driver/lifecycle.js";
import { listRules } from "./session-driver/lists.js";
import { messageRules } from "./session-driver/messages.js";
import { StoreUnderTest, type StoreRules } from "./session-driver/store-under-test.js";
import { raceRules } from "./session-driver/races.js";
import { runRules } from "./session-driver/runs.js";
import { searchRules } from "./session-driver/search.js";
import { sessionRules } from "./session-driver/sessions.js";
import { sharingRules } from "./session-driver/sharing.js";
import { textRules } from "./session-driver/texts.js";
import { transferRules } from "./session-driver/transfer.js";
import { separationRules } from "./session-driver/users.js";

/** Returns one check for each rule of the `SessionDriver` contract. All are required. */
export function sessionDriverChecks(fixture: SessionDriverFixture): Check[] {
  const rules: Readonly<Record<string, StoreRules>> = {
    sessions: { ...sessionRules, ...lifecycleRules },
    lists: listRules,
    messages: messageRules,
    search: searchRules,
    changes: changeRules,
    chains: chainRules,
    leases: leaseRules,
    runs: { ...runRules, ...headRules },
    asks: askRules,
    sharing: sharingRules,
    races: raceRules,
    texts: textRules,
    transfer: transferRules,
    users: separationRules,
  };
  return Object.entries(rules).flatMap(([group, groupRules]) =>
    Object.entries(groupRules).map(([name, body]) => ({ group, name, run: () => runCheck(name, body, fixture) })),
  );
}

/** Runs one check and cleans up. The check's own failure has precedence over a failure of the cleanup. */
async function runCheck(name: string, body: StoreRules[string], fixture: SessionDriverFixture): Promise<void> {
  const store = await StoreUnderTest.create(fixture, name);
  const [checkResult] = await Promise.allSettled([body(store)]);
  const [cleanupResult] = await Promise.allSettled([store.end()]);
  for (const result of [checkResult, cleanupResult]) if (result.status === "rejected") throw result.reason;
}
