import type { Session } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";

/** Sessions asked for at a time. */
const PAGE = 100;

/** The helpers of a chain, by the id of its original, and theirs: ids of originals, each behind whoever asked for it. */
export async function helpersOf(store: SessionDriver, rootId: string): Promise<string[]> {
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
