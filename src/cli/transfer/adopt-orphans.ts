import { withEffectiveState, isOpen } from "../../sessions/stored-run.js";
import type { Session } from "../../ports/session.js";
import type { SessionDriver } from "../../ports/session-driver.js";

/**
 * Turns imported subagent sessions whose parent is missing into ordinary sessions. Otherwise no list would show them.
 *
 * `rootIds` are the root sessions of the imported subagent chains. Resolves with the number of adopted sessions.
 */
export async function adoptOrphans(store: SessionDriver, rootIds: Iterable<string>): Promise<number> {
  let adoptedCount = 0;
  for (const id of rootIds) {
    const session = await store.get(id);
    if (!session || (await isShown(store, session))) continue;
    // Another process already runs the session: leave it.
    const openRuns = await store.runs({ sessionId: id, states: ["queued", "running", "waiting"], limit: 10 });
    if (openRuns.some((storedRun) => isOpen(withEffectiveState(storedRun, store)))) continue;
    const chain = await store.dump(id);
    if (!chain) continue;
    // A store never changes the parent of a session, therefore delete the session and load it again. If the process
    // ends
    // between both, the same import restores the session.
    await store.delete([id]);
    const sessions = chain.sessions.map((data) => ({ ...data, session: { ...data.session, spawnedBy: null } }));
    await store.load({ ...chain, sessions });
    adoptedCount += 1;
  }
  return adoptedCount;
}

/** Whether a list shows the session, itself or through one of its ancestors. */
async function isShown(store: SessionDriver, session: Session): Promise<boolean> {
  // An untrusted file can contain a cycle of parents.
  const visitedRoots = new Set<string>();
  for (
    let ancestor: Session | undefined = session;
    ancestor;
    ancestor = await store.get(ancestor.spawnedBy.sessionId)
  ) {
    if (ancestor.spawnedBy === null) return true;
    if (visitedRoots.has(ancestor.chain.root)) return false;
    visitedRoots.add(ancestor.chain.root);
  }
  return false;
}
