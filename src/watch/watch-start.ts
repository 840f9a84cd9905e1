import type { SessionDriver } from "../ports/session-driver.js";
import { type Cursor, hashOf, hashOfCuts } from "./cursor.js";

/** From where a reader is told. */
export interface Start {
  readonly cursor: Cursor;
  /** What the reader may have behind this `seq` is void; undefined where nothing is. */
  readonly voidAfter?: number | undefined;
  /** It may come back to the cursor, and knows it from the first event on. */
  readonly isTold?: boolean;
}

/**
 * Where a reader goes on that has the messages up to `seq`, and no cursor yet. A message that is visible has before it
 * what it always had; of one that is not the reader may have what was cut, and some of what is to be told in its place.
 */
export async function behindOf(store: SessionDriver, rootId: string, seq: number): Promise<Start> {
  const head = await store.head(rootId, { messages: false });
  const cuts = head?.original.cuts ?? [];
  const at = (message: { seq: number; id: string } | undefined): Cursor => {
    const proof = { cuts: hashOfCuts(cuts), message: message ? hashOf(message.id) : 0, said: 0 };
    return { cuts: cuts.length, seq: message?.seq ?? 0, within: undefined, proof };
  };
  const found = await store.messages(rootId, { scope: "chain", before: seq + 1, limit: 2 });
  const last = found.at(-1);
  if (last?.seq === seq) {
    // How much the reader has of one that grows nobody knows: it is told again, whole.
    return { cursor: at(last.finished ? last : found.at(-2)), isTold: true };
  }
  return { cursor: at(last), voidAfter: await visibleBefore(store, rootId, seq, last?.seq ?? 0) };
}

/**
 * The last message that is visible of those that stood before this one, which is not. `last`: the visible one with the
 * next smaller `seq`.
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
    // One that was never there is behind what is; of one that is lost nothing is known.
    if (forked === undefined) return at === seq ? last : 0;
    at = forked;
  }
  return 0;
}
