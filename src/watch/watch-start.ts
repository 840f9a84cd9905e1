import type { SessionDriver } from "../ports/session-driver.js";
import { type Cursor, computeHash, hashRewinds } from "./cursor.js";

/** The position from which a reader receives events. */
export interface WatchStart {
  readonly cursor: Cursor;
  /** Messages of the reader after this `seq` are void; undefined if all are valid. */
  readonly voidAfter?: number | undefined;
  /** Whether the first event contains the cursor, because the reader may resume from it. */
  readonly sendsCursor?: boolean;
}

/**
 * Finds the start position of a reader that has the messages up to `seq`, but no cursor. If the message with this `seq`
 * is visible, the earlier messages are unchanged. Otherwise the message was rewound: the reader may have other rewound
 * messages, and may lack messages that replaced them.
 */
export async function findStartAfterSeq(store: SessionDriver, rootId: string, seq: number): Promise<WatchStart> {
  const head = await store.head(rootId, { messages: false });
  const rewinds = head?.root.rewinds ?? [];
  const createCursor = (message: { seq: number; id: string } | undefined): Cursor => {
    const messageHash = message ? computeHash(message.id) : 0;
    const check = { rewindsHash: hashRewinds(rewinds), messageHash, contentHash: 0 };
    return { rewindCount: rewinds.length, seq: message?.seq ?? 0, receivedLengths: undefined, check };
  };
  const messages = await store.messages(rootId, { scope: "chain", before: seq + 1, limit: 2 });
  const lastMessage = messages.at(-1);
  if (lastMessage?.seq === seq) {
    // The received part of a growing message is unknown, so the complete message is sent again.
    return { cursor: createCursor(lastMessage.finished ? lastMessage : messages.at(-2)), sendsCursor: true };
  }
  return {
    cursor: createCursor(lastMessage),
    voidAfter: await findVisibleBefore(store, rootId, seq, lastMessage?.seq ?? 0),
  };
}

/**
 * Finds the `seq` of the last visible message that precedes a hidden message. `precedingSeq`: `seq` of the visible
 * message with the next smaller `seq`.
 */
async function findVisibleBefore(
  store: SessionDriver,
  rootId: string,
  seq: number,
  precedingSeq: number,
): Promise<number> {
  const { snapshots = [] } = (await store.head(rootId, { messages: false })) ?? {};
  for (let hiddenSeq = seq; hiddenSeq > 0;) {
    const query = { scope: "chain", after: hiddenSeq - 1, before: hiddenSeq + 1 } as const;
    const hasMessage = async (hiddenBy?: string) =>
      (await store.messages(rootId, hiddenBy === undefined ? query : { ...query, hiddenBy })).length > 0;
    if (hiddenSeq < seq && (await hasMessage())) return hiddenSeq;
    let branchSeq: number | undefined;
    for (const { id, after } of snapshots) if (after < hiddenSeq && (await hasMessage(id))) branchSeq = after;
    // A message that never existed comes after all visible ones. If a message was lost, nothing is known.
    if (branchSeq === undefined) return hiddenSeq === seq ? precedingSeq : 0;
    hiddenSeq = branchSeq;
  }
  return 0;
}
