import { nowMs } from "../base/clock.js";
import type { Session } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";

/** Sessions per page. */
const PAGE_SIZE = 500;
/** Upper bound for the difference between the clocks of stores without a clock of their own, in ms. */
const MAX_CLOCK_SKEW_MS = 900_000;

/**
 * Returns the ids of all originals of a store except those of subagents, usually newest first. Every session that
 * exists during the complete call is included.
 *
 * Reads page by page. A session that changes meanwhile moves to the front, before the read position. Changed sessions
 * are therefore read again until no new id appears. Rejects with the signal's reason.
 */
export async function listRootIds(store: SessionDriver, signal: AbortSignal): Promise<Set<string>> {
  const roots = new Set<string>();
  // Lists are read down to sessions that were updated before the previous pass.
  for (let changedSince = ""; ;) {
    const previousCount = roots.size;
    const nextChangedSince = new Date(nowMs(store) - MAX_CLOCK_SKEW_MS).toISOString();
    let before: Session | undefined;
    do {
      signal.throwIfAborted();
      const page: Session[] = (await store.list({ limit: PAGE_SIZE, ...(before && { before }) })).sessions;
      for (const { id } of page) roots.add(id);
      before = page.length < PAGE_SIZE ? undefined : page.at(-1);
    } while (before && before.updatedAt >= changedSince);
    if (roots.size === previousCount || (changedSince === "" && previousCount === 0 && roots.size < PAGE_SIZE))
      return roots;
    changedSince = nextChangedSince;
  }
}
