import type { Session } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";

/** Sessions per query. */
const PAGE_SIZE = 100;

/**
 * Returns the session ids of a chain's subagents, including nested subagents. `rootId` is the id of the chain's first
 * session. Each parent precedes its subagents.
 */
export async function listSubagentSessionIds(store: SessionDriver, rootId: string): Promise<string[]> {
  const sessionIds = new Set([rootId]);
  // The loop also visits the ids that it adds to the set.
  for (const id of sessionIds)
    for (let before: Session | undefined; ;) {
      const { sessions } = await store.list({ spawnedBy: id, limit: PAGE_SIZE, ...(before && { before }) });
      for (const subagent of sessions) sessionIds.add(subagent.id);
      before = sessions.at(-1);
      if (sessions.length < PAGE_SIZE) break;
    }
  sessionIds.delete(rootId);
  return [...sessionIds];
}
