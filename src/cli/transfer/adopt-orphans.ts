import { asItIs, isOpen } from "../../sessions/stored-run.js";
import type { Session } from "../../ports/session.js";
import type { SessionDriver } from "../../ports/session-driver.js";

/**
 * Helpers whose askers did not come with them become sessions like any other: no list would show them. `ids`: of those
 * that were taken in, each its chain's first. Resolves with how many.
 */
export async function adoptOrphans(store: SessionDriver, ids: Iterable<string>): Promise<number> {
  let adopted = 0;
  for (const id of ids) {
    const session = await store.get(id);
    if (!session || (await isShown(store, session))) continue;
    // Somebody goes on with it already.
    const open = await store.runs({ sessionId: id, states: ["queued", "running", "waiting"], limit: 10 });
    if (open.some((stored) => isOpen(asItIs(stored)))) continue;
    const chain = await store.dump(id);
    if (!chain) continue;
    // Who asked never changes in a store. Where this breaks off, the same import takes the session in again.
    await store.delete([id]);
    const sessions = chain.sessions.map((data) => ({ ...data, session: { ...data.session, spawnedBy: null } }));
    await store.load({ ...chain, sessions });
    adopted += 1;
  }
  return adopted;
}

/** Whether a list shows it, or whoever asked for it, or who asked for that. */
async function isShown(store: SessionDriver, session: Session): Promise<boolean> {
  // A file may say of two that each asked for the other.
  const seen = new Set<string>();
  for (let one: Session | undefined = session; one; one = await store.get(one.spawnedBy.sessionId)) {
    if (one.spawnedBy === null) return true;
    if (seen.has(one.chain.root)) return false;
    seen.add(one.chain.root);
  }
  return false;
}
