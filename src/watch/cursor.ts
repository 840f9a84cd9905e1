import { InputError } from "../ports/errors.js";
import type { SessionDriver } from "../ports/session-driver.js";

/** A place in what a session says. */
export interface Cursor {
  /** Reverts and restores that the reader knows of. */
  readonly cuts: number;
  /** Of the last message that the reader has; 0 before the first. */
  readonly seq: number;
  /** UTF-16 units of its text and of its reasoning that the reader has; undefined when it has all of it. */
  readonly within: { readonly text: number; readonly reasoning: number } | undefined;
  /** Undefined where it only says where to begin, and nothing of what was read before. */
  readonly proof: Proof | undefined;
}

/** What the reader has, as hashes: a store that lost its end, and went on, has other things at the same place. */
export interface Proof {
  /** Of the cuts that it knows of. */
  readonly cuts: number;
  /** Of the id of the message; 0 for none. */
  readonly message: number;
  /** Of what it has of a growing message; else 0. */
  readonly said: number;
}

const BEGINNING: Cursor = { cuts: 0, seq: 0, within: undefined, proof: undefined };
const CURSOR =
  /^([a-z0-9]{1,7})-(\d{1,15})\.(\d{1,15})(?:\.(\d{1,15})\.(\d{1,15}))?(?:-([a-z0-9]{1,7})\.([a-z0-9]{1,7})\.([a-z0-9]{1,7}))?$/;

/** Opaque to clients: a mark of the session, then `cuts.seq` behind a message, `cuts.seq.text.reasoning` in a growing one, then the proof. */
export function formatCursor(rootId: string, { cuts, seq, within, proof }: Cursor): string {
  const place = `${cuts}.${seq}${within ? `.${within.text}.${within.reasoning}` : ""}`;
  const hashes = proof && [proof.cuts, proof.message, proof.said].map((hash) => hash.toString(36)).join(".");
  return `${hashOf(rootId).toString(36)}-${place}${hashes === undefined ? "" : `-${hashes}`}`;
}

/** Throws `InputError` for one that never was, and for one of another session. */
export function parseCursor(rootId: string, text: string): Cursor {
  if (text === "") return BEGINNING;
  const match = CURSOR.exec(text);
  if (!match) throw new InputError("after", "a cursor, as the id of an event tells it");
  if (match[1] !== hashOf(rootId).toString(36))
    throw new InputError("after", "a cursor of this session, got one of another");
  const [cuts, seq, ofText, ofReasoning] = match.slice(2, 6).map(Number) as [number, number, number, number];
  const [ofCuts, ofMessage, said] = match.slice(6).map((hash) => parseInt(hash, 36)) as [number, number, number];
  return {
    cuts,
    seq,
    within: match[4] === undefined ? undefined : { text: ofText, reasoning: ofReasoning },
    proof: match[6] === undefined ? undefined : { cuts: ofCuts, message: ofMessage, said },
  };
}

/** Whether the store has, shown or hidden, what a reader with this cursor was told: it may have lost its end in a power cut, and gone on otherwise. */
export async function isStored(store: SessionDriver, rootId: string, { cuts, seq, proof }: Cursor): Promise<boolean> {
  const head = await store.head(rootId, { messages: false });
  const known = head?.original.cuts ?? [];
  if (seq > (head?.newest.lastSeq ?? 0) || cuts > known.length) return false;
  if (!proof) return true;
  if (hashOfCuts(known.slice(0, cuts)) !== proof.cuts) return false;
  if (proof.message === 0) return true;
  const place = { scope: "chain", after: seq - 1, before: seq + 1 } as const;
  const isIt = (messages: readonly { id: string }[]): boolean =>
    messages.some(({ id }) => hashOf(id) === proof.message);
  if (isIt(await store.messages(rootId, place))) return true;
  // Read again: a revert may have hidden the message since.
  for (const { id: hiddenBy } of (await store.head(rootId, { messages: false }))?.snapshots ?? [])
    if (isIt(await store.messages(rootId, { ...place, hiddenBy }))) return true;
  return false;
}

/** FNV-1a, 32 bits: enough to find out a mistake. `so far` goes on from the hash of what stands before. */
export function hashOf(text: string, soFar = 0x811c9dc5): number {
  let hash = soFar;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}

export function hashOfCuts(cuts: readonly number[]): number {
  return cuts.length === 0 ? 0 : hashOf(cuts.join("."));
}
