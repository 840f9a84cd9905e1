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
  const lastMessage =
    messageId === "" ? await findBeginning(store, id) : messages.find((message) => message.id === messageId);
  if (!lastMessage) throw new PointNotFoundError("message");
  const snapshot = { ...createSnapshot(lastMessage.seq), id: snapshotId };
  const { root } = await headOf(store, id);
  const set = { rewinds: [...root.rewinds, lastMessage.seq], updatedAt: now() };
  await store.write(lastMessage.sessionId, { fence, sync: true, revert: snapshot, set });
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
  const { base, undone } = await makeBaseVisible(store, fence, id, snapshotId);
  const laterMessages = await store.messages(id, { scope: "chain", after: base.seq, limit: 1 });
  const head = await headOf(store, id);
  const hiddenBranch =
    laterMessages.length > 0 || head.newest.id !== base.sessionId ? createSnapshot(base.seq) : undefined;
  await store.write(base.sessionId, {
    fence,
    sync: true,
    ...(hiddenBranch ? { revert: hiddenBranch } : {}),
    restore: snapshotId,
    set: { rewinds: [...head.root.rewinds, base.seq], updatedAt: now() },
  });
  // If another branch was restored on the way, its snapshot contains what the caller saw.
  return undone ? undone.aside : hiddenBranch;
}

/**
 * The visible message after which a snapshot starts. If a later revert hid that message too, that revert is undone
 * first.
 */
async function makeBaseVisible(
  store: SessionDriver,
  fence: number,
  id: string,
  snapshotId: string,
): Promise<{ base: Pick<Message, "seq" | "sessionId">; undone?: { aside: Snapshot | undefined } }> {
  const { snapshots } = await headOf(store, id);
  const snapshot = snapshots.find((candidate) => candidate.id === snapshotId);
  if (!snapshot) throw new PointNotFoundError("snapshot");
  const page = { scope: "chain", after: snapshot.after - 1, before: snapshot.after + 1 } as const;
  const [visibleMessage] = snapshot.after === 0 ? [await findBeginning(store, id)] : await store.messages(id, page);
  if (visibleMessage) return { base: visibleMessage };
  for (const otherSnapshot of snapshots) {
    const [hiddenMessage] = await store.messages(id, { ...page, hiddenBy: otherSnapshot.id });
    if (!hiddenMessage) continue;
    // Stored as a separate complete step: after a crash in between, that branch is visible and no data is lost.
    return { base: hiddenMessage, undone: { aside: await restore(store, fence, id, otherSnapshot.id) } };
  }
  throw new PointNotFoundError("message");
}

/** The position before the first message. */
async function findBeginning(
  store: SessionDriver,
  id: string,
): Promise<Pick<Message, "seq" | "sessionId"> | undefined> {
  const session = await store.get(id);
  return session && { seq: 0, sessionId: session.chain.root };
}

function createSnapshot(seq: number): Snapshot {
  return { id: newId(), after: seq, createdAt: now() };
}
