import type { LeaseHolder } from "../../ports/holder.js";
import type { Session } from "../../ports/session.js";
import type { Lease, LeaseConflict, LeaseOptions, AcquiredLease } from "../../ports/session-driver.js";
import { Chain } from "./chain.js";
import { keys } from "./keys.js";
import { readLeaseHead } from "./sessions.js";
import type { Transaction } from "./transaction.js";

/** Like `SessionDriver.lease`. */
export async function takeLease(
  tx: Transaction,
  id: string,
  holder: LeaseHolder,
  ttlMs: number,
  { fenceToReplace, head }: LeaseOptions,
): Promise<AcquiredLease | LeaseConflict> {
  const root = (await tx.get<Session>(keys.session(id)))?.chain.root ?? id;
  const chain = await Chain.open(tx, root);
  const nowMs = Date.now();
  const currentLease = chain.head.lease;
  const isOwnLease = currentLease?.holder.id === holder.id;
  if (
    currentLease &&
    !isOwnLease &&
    Date.parse(currentLease.expiresAt) > nowMs &&
    currentLease.fence !== fenceToReplace
  )
    return { heldBy: currentLease };
  const fence = currentLease && isOwnLease ? currentLease.fence : await nextFence(tx);
  const lease: Lease = { rootId: root, holder, fence, expiresAt: new Date(nowMs + ttlMs).toISOString() };
  const previousFence = isOwnLease ? null : (currentLease?.fence ?? chain.head.released);
  chain.head = { ...chain.head, lease, released: null };
  chain.save();
  const isHeadCached = head?.cachedFence !== undefined && head.cachedFence === previousFence;
  const leaseHead = head && (await readLeaseHead(tx, root, head.messages && !isHeadCached));
  return {
    ...lease,
    ...(previousFence !== null && { previous: previousFence }),
    ...(leaseHead && { head: leaseHead }),
  };
}

/**
 * Returns a fence greater than all earlier fences of the store, so that a chain's fence also increases across deletes.
 * A store that lost its last fence starts at the time in ms, above all fences that it can have issued.
 */
async function nextFence(tx: Transaction): Promise<number> {
  const fence = ((await tx.get<number>(keys.fence)) ?? Date.now()) + 1;
  tx.set(keys.fence, "", fence);
  return fence;
}
