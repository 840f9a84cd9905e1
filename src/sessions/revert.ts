import { PointNotFoundError } from "../ports/errors.js";
import { newId, now, nowNotBefore } from "../base/ids.js";
import { requireHead } from "./require-session.js";
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
  const snapshot = { ...createSnapshot(lastMessage.seq, store), id: snapshotId };
  const { root } = await requireHead(store, id);
  const set = { rewinds: [...root.rewinds, lastMessage.seq], updatedAt: nowNotBefore(root.updatedAt, store) };
  await store.write(lastMessage.sessionId, { fence, sync: true, revert: snapshot, set });
  return snapshot;
}

/** Returns the id of the visible message before a message; `""` for the first one. Rejects with `PointNotFoundError`. */
export async function findMessageBefore(store: SessionDriver, id: string, messageId: string): Promise<string> {
  const messages = await store.messages(id, { scope: "chain" });
  const index = messages.findIndex((message) => message.id === messageId);
  if (index === -1) throw new PointNotFoundError("message");
  return messages[index - 1]?.id ?? "";
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
  const { baseMessage, branchRestore } = await makeBaseVisible(store, fence, id, snapshotId);
  const laterMessages = await store.messages(id, { scope: "chain", after: baseMessage.seq, limit: 1 });
  const head = await requireHead(store, id);
  const hiddenBranch =
    laterMessages.length > 0 || head.newest.id !== baseMessage.sessionId
      ? createSnapshot(baseMessage.seq, store)
      : undefined;
  await store.write(baseMessage.sessionId, {
    fence,
    sync: true,
    ...(hiddenBranch ? { revert: hiddenBranch } : {}),
    restore: snapshotId,
    set: {
      rewinds: [...head.root.rewinds, baseMessage.seq],
      updatedAt: nowNotBefore(head.root.updatedAt, store),
    },
  });
  // If another branch was restored first, the snapshot of that step contains the messages that were visible before.
  return branchRestore ? branchRestore.snapshot : hiddenBranch;
}

/**
 * Returns the visible message after which a snapshot starts. If a later revert hid that message too, its branch is
 * restored first; `branchRestore` has the snapshot that this made.
 */
async function makeBaseVisible(
  store: SessionDriver,
  fence: number,
  id: string,
  snapshotId: string,
): Promise<{ baseMessage: Pick<Message, "seq" | "sessionId">; branchRestore?: { snapshot: Snapshot | undefined } }> {
  const { snapshots } = await requireHead(store, id);
  const snapshot = snapshots.find((candidate) => candidate.id === snapshotId);
  if (!snapshot) throw new PointNotFoundError("snapshot");
  const baseQuery = { scope: "chain", after: snapshot.after - 1, before: snapshot.after + 1 } as const;
  const [visibleMessage] =
    snapshot.after === 0 ? [await findBeginning(store, id)] : await store.messages(id, baseQuery);
  if (visibleMessage) return { baseMessage: visibleMessage };
  for (const otherSnapshot of snapshots) {
    const [hiddenMessage] = await store.messages(id, { ...baseQuery, hiddenBy: otherSnapshot.id });
    if (!hiddenMessage) continue;
    // Stored as a separate complete step: after a crash in between, that branch is visible and no data is lost.
    return {
      baseMessage: hiddenMessage,
      branchRestore: { snapshot: await restore(store, fence, id, otherSnapshot.id) },
    };
  }
  throw new PointNotFoundError("message");
}

/** Returns the position before the first message; undefined if the session does not exist. */
async function findBeginning(
  store: SessionDriver,
  id: string,
): Promise<Pick<Message, "seq" | "sessionId"> | undefined> {
  const session = await store.get(id);
  return session && { seq: 0, sessionId: session.chain.root };
}

function createSnapshot(seq: number, store: SessionDriver): Snapshot {
  return { id: newId(), after: seq, createdAt: now(store) };
}
