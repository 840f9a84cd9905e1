import type { SessionDriver } from "../ports/session-driver.js";
import { type Cursor, hashOf, hashOfRewinds } from "./cursor.js";

/** The position from which a reader receives events. */
export interface WatchStart {
  readonly cursor: Cursor;
  /** Messages of the reader after this `seq` are void; undefined if all are valid. */
  readonly voidAfter?: number | undefined;
  /** Whether the first event contains the cursor, because the reader may resume from it. */
  readonly sendsCursor?: boolean;
}

/**
 * The start position of a reader that has the messages up to `seq`, but no cursor. If that message is visible, the
 * messages before it are unchanged. Otherwise it was rewound: the reader may have rewound messages, and lack some of
 * those that replaced them.
 */
export async function startAfterSeq(store: SessionDriver, rootId: string, seq: number): Promise<WatchStart> {
  const head = await store.head(rootId, { messages: false });
  const cuts = head?.original.rewinds ?? [];
  const at = (message: { seq: number; id: string } | undefined): Cursor => {
    const proof = { cuts: hashOfRewinds(cuts), message: message ? hashOf(message.id) : 0, content: 0 };
    return { cuts: cuts.length, seq: message?.seq ?? 0, within: undefined, proof };
  };
  const messages = await store.messages(rootId, { scope: "chain", before: seq + 1, limit: 2 });
  const last = messages.at(-1);
  if (last?.seq === seq) {
    // The received part of a growing message is unknown, so the complete message is sent again.
    return { cursor: at(last.finished ? last : messages.at(-2)), sendsCursor: true };
  }
  return { cursor: at(last), voidAfter: await visibleBefore(store, rootId, seq, last?.seq ?? 0) };
}

/**
 * The `seq` of the last visible message among those before a hidden message. `last`: `seq` of the visible message with
 * the next smaller `seq`.
 */
async function visibleBefore(store: SessionDriver, rootId: string, seq: number, last: number): Promise<number> {
  const { snapshots = [] } = (await store.head(rootId, { messages: false })) ?? {};
  for (let at = seq; at > 0;) {
    const place = { scope: "chain", after: at - 1, before: at + 1 } as const;
    const has = async (hiddenBy?: string) =>
      (await store.messages(rootId, hiddenBy === undefined ? place : { ...place, hiddenBy })).length > 0;
    if (at < seq && (await has())) return at;
    let forked: number | undefined;
    for (const { id, after } of snapshots) if (after < at && (await has(id))) forked = after;
    // A message that never existed comes after all visible ones. If a message was lost, nothing is known.
    if (forked === undefined) return at === seq ? last : 0;
    at = forked;
  }
  return 0;
}
