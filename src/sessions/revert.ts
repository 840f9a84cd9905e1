import { PointNotFoundError } from "../ports/errors.js";
import { newId, now } from "../base/ids.js";
import { headOf } from "./require-session.js";
import type { Message } from "../ports/message.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Snapshot } from "../ports/session.js";

// A conversation with reverts is a tree with one visible branch, from the first message to a last one. A snapshot is
// the end of a branch: all messages that followed the message `after` when the snapshot was made.

/**
 * Hides the messages of a chain after a message, also in its later sessions; `""` hides all. Returns the new snapshot.
 * Rejects with `PointNotFoundError`.
 */
export async function revert(
  store: SessionDriver,
  fence: number,
  id: string,
  messageId: string,
  snapshotId = newId(),
): Promise<Snapshot> {
  const messages = await store.messages(id, { scope: "chain" });
  const last = messageId === "" ? await beginning(store, id) : messages.find((message) => message.id === messageId);
  if (!last) throw new PointNotFoundError("message");
  const snapshot = { ...snapshotAfter(last.seq), id: snapshotId };
  const { original } = await headOf(store, id);
  const set = { rewinds: [...original.rewinds, last.seq], updatedAt: now() };
  await store.write(last.sessionId, { fence, sync: true, revert: snapshot, set });
  return snapshot;
}

/**
 * Makes the branch of a snapshot visible. Messages visible after the fork of the two branches move to a new snapshot.
 * Resolves with the new snapshot; undefined if there were no such messages. Rejects with `PointNotFoundError`.
 */
export async function restore(
  store: SessionDriver,
  fence: number,
  id: string,
  snapshotId: string,
): Promise<Snapshot | undefined> {
  const { base, undone } = await branch(store, fence, id, snapshotId);
  const laterMessages = await store.messages(id, { scope: "chain", after: base.seq, limit: 1 });
  const head = await headOf(store, id);
  const cut = laterMessages.length > 0 || head.newest.id !== base.sessionId ? snapshotAfter(base.seq) : undefined;
  await store.write(base.sessionId, {
    fence,
    sync: true,
    ...(cut ? { revert: cut } : {}),
    restore: snapshotId,
    set: { rewinds: [...head.original.rewinds, base.seq], updatedAt: now() },
  });
  // If another branch was restored on the way, its snapshot contains what the caller saw.
  return undone ? undone.aside : cut;
}

/**
 * The visible message after which a snapshot starts. If a later revert hid that message too, that revert is undone
 * first.
 */
async function branch(
  store: SessionDriver,
  fence: number,
  id: string,
  snapshotId: string,
): Promise<{ base: Pick<Message, "seq" | "sessionId">; undone?: { aside: Snapshot | undefined } }> {
  const { snapshots } = await headOf(store, id);
  const snapshot = snapshots.find((candidate) => candidate.id === snapshotId);
  if (!snapshot) throw new PointNotFoundError("snapshot");
  const place = { scope: "chain", after: snapshot.after - 1, before: snapshot.after + 1 } as const;
  const [visible] = snapshot.after === 0 ? [await beginning(store, id)] : await store.messages(id, place);
  if (visible) return { base: visible };
  for (const otherSnapshot of snapshots) {
    const [hidden] = await store.messages(id, { ...place, hiddenBy: otherSnapshot.id });
    if (!hidden) continue;
    // Stored as a separate complete step: after a crash in between, that branch is visible and no data is lost.
    return { base: hidden, undone: { aside: await restore(store, fence, id, otherSnapshot.id) } };
  }
  throw new PointNotFoundError("message");
}

/** The position before the first message. */
async function beginning(store: SessionDriver, id: string): Promise<Pick<Message, "seq" | "sessionId"> | undefined> {
  const session = await store.get(id);
  return session && { seq: 0, sessionId: session.chain.root };
}

function snapshotAfter(seq: number): Snapshot {
  return { id: newId(), after: seq, createdAt: now() };
}
