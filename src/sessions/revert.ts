import { PointNotFoundError } from "../ports/errors.js";
import { newId, now } from "../base/ids.js";
import { headOf } from "./require-session.js";
import type { Message } from "../ports/message.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Snapshot } from "../ports/session.js";

// A conversation with reverts is a tree of which one branch, from the first message to a last one, is visible. A
// snapshot holds the rest of a branch: all that followed the message `after` when it was made.

/** Hide what a chain says after a message, `""` for all, also in later sessions of the chain. Rejects with `PointNotFoundError`. */
export async function revert(
  store: SessionDriver,
  fence: number,
  id: string,
  messageId: string,
  snapshotId = newId(),
): Promise<Snapshot> {
  const said = await store.messages(id, { scope: "chain" });
  const last = messageId === "" ? await beginning(store, id) : said.find((message) => message.id === messageId);
  if (!last) throw new PointNotFoundError("message");
  const snapshot = { ...snapshotAfter(last.seq), id: snapshotId };
  const { original } = await headOf(store, id);
  const set = { cuts: [...original.cuts, last.seq], updatedAt: now() };
  await store.write(last.sessionId, { fence, sync: true, cut: snapshot, set });
  return snapshot;
}

/**
 * Make the branch visible that a snapshot ends, and put what was visible beyond the fork of the two under a new one;
 * resolves with that, where there was something. Rejects with `PointNotFoundError`.
 */
export async function restore(
  store: SessionDriver,
  fence: number,
  id: string,
  snapshotId: string,
): Promise<Snapshot | undefined> {
  const { base, undone } = await branch(store, fence, id, snapshotId);
  const said = await store.messages(id, { scope: "chain", after: base.seq, limit: 1 });
  const head = await headOf(store, id);
  const cut = said.length > 0 || head.newest.id !== base.sessionId ? snapshotAfter(base.seq) : undefined;
  await store.write(base.sessionId, {
    fence,
    sync: true,
    ...(cut ? { cut } : {}),
    restore: snapshotId,
    set: { cuts: [...head.original.cuts, base.seq], updatedAt: now() },
  });
  // Where another branch was made visible on the way, its snapshot has what the caller saw.
  return undone ? undone.aside : cut;
}

/** The message that a snapshot goes on from, visible: where a later revert hid it too, that is undone first. */
async function branch(
  store: SessionDriver,
  fence: number,
  id: string,
  snapshotId: string,
): Promise<{ base: Pick<Message, "seq" | "sessionId">; undone?: { aside: Snapshot | undefined } }> {
  const { snapshots } = await headOf(store, id);
  const snapshot = snapshots.find((one) => one.id === snapshotId);
  if (!snapshot) throw new PointNotFoundError("snapshot");
  const place = { scope: "chain", after: snapshot.after - 1, before: snapshot.after + 1 } as const;
  const [visible] = snapshot.after === 0 ? [await beginning(store, id)] : await store.messages(id, place);
  if (visible) return { base: visible };
  for (const other of snapshots) {
    const [hidden] = await store.messages(id, { ...place, hiddenBy: other.id });
    if (!hidden) continue;
    // Whole and stored by itself: a crash in between leaves that branch visible, and nothing is lost.
    return { base: hidden, undone: { aside: await restore(store, fence, id, other.id) } };
  }
  throw new PointNotFoundError("message");
}

/** Before the first message. */
async function beginning(store: SessionDriver, id: string): Promise<Pick<Message, "seq" | "sessionId"> | undefined> {
  const session = await store.get(id);
  return session && { seq: 0, sessionId: session.chain.root };
}

function snapshotAfter(seq: number): Snapshot {
  return { id: newId(), after: seq, createdAt: now() };
}
