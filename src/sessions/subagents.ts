import type { Session } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";

/** Sessions per page. */
const PAGE = 100;

/**
 * Ids of the originals of a chain's subagents, and recursively of theirs. `rootId` is the id of the chain's original.
 * Each parent precedes its subagents.
 */
export async function listSubagentSessions(store: SessionDriver, rootId: string): Promise<string[]> {
  const found = new Set([rootId]);
  for (const id of found)
    for (let before: Session | undefined; ;) {
      const { sessions } = await store.list({ spawnedBy: id, limit: PAGE, ...(before && { before }) });
      for (const helper of sessions) found.add(helper.id);
      before = sessions.at(-1);
      if (sessions.length < PAGE) break;
    }
  found.delete(rootId);
  return [...found];
}
