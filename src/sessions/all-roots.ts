import type { Session } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";

/** Sessions asked for at a time. */
const PAGE = 500;
/** Clocks of hosts that share a store differ by less, in ms. */
const SKEW_MS = 900_000;

/**
 * The ids of all originals of a store, but for those of helpers, the newest first as a rule: of each that is there from the beginning to the end.
 * Page by page; a session that changes meanwhile moves to the front, past the place where the reading stands, so what
 * changed since is looked at again, until nothing new comes. Rejects with the signal's reason.
 */
export async function allRoots(store: SessionDriver, signal: AbortSignal): Promise<Set<string>> {
  const roots = new Set<string>();
  for (let since = ""; ;) {
    const known = roots.size;
    const begun = new Date(Date.now() - SKEW_MS).toISOString();
    let before: Session | undefined;
    do {
      signal.throwIfAborted();
      const page: Session[] = (await store.list({ limit: PAGE, ...(before && { before }) })).sessions;
      for (const { id } of page) roots.add(id);
      before = page.length < PAGE ? undefined : page.at(-1);
    } while (before && before.updatedAt >= since);
    if (roots.size === known || (since === "" && known === 0 && roots.size < PAGE)) return roots;
    since = begun;
  }
}
