import type { LeaseHolder } from "../../ports/holder.js";
import type { Session } from "../../ports/session.js";
import type { Lease, LeaseConflict, LeaseOptions, AcquiredLease } from "../../ports/session-driver.js";
import { Chain } from "./chain.js";
import { keys } from "./keys.js";
import { leaseHeadOf } from "./sessions.js";
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
  const now = Date.now();
  const held = chain.head.lease;
  const isMine = held?.holder.id === holder.id;
  if (held && !isMine && Date.parse(held.expiresAt) > now && held.fence !== fenceToReplace) return { heldBy: held };
  const fence = held && isMine ? held.fence : await nextFence(tx);
  const lease: Lease = { rootId: root, holder, fence, expiresAt: new Date(now + ttlMs).toISOString() };
  const previous = isMine ? null : (held?.fence ?? chain.head.released);
  chain.head = { ...chain.head, lease, released: null };
  chain.save();
  const isKnown = head?.cachedFence !== undefined && head.cachedFence === previous;
  const current = head && (await leaseHeadOf(tx, root, head.messages && !isKnown));
  return { ...lease, ...(previous !== null && { previous }), ...(current && { head: current }) };
}

/**
 * Greater than all earlier fences of the store, so it also increases across deletes of its chain. A store that lost its
 * last fence starts above all values it can have issued.
 */
async function nextFence(tx: Transaction): Promise<number> {
  const fence = ((await tx.get<number>(keys.fence)) ?? Date.now()) + 1;
  tx.set(keys.fence, "", fence);
  return fence;
}
