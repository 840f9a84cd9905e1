import type { Session } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";

/** Sessions per page. */
const PAGE_SIZE = 100;

/**
 * Ids of the originals of a chain's subagents, and recursively of theirs. `rootId` is the id of the chain's original.
 * Each parent precedes its subagents.
 */
export async function listSubagentSessions(store: SessionDriver, rootId: string): Promise<string[]> {
  const sessionIds = new Set([rootId]);
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
