import { InputError } from "../ports/errors.js";
import type { SessionDriver } from "../ports/session-driver.js";

/** A position in the messages of a session. */
export interface Cursor {
  /** Number of rewinds that the reader knows, counting restores. */
  readonly cuts: number;
  /** `seq` of the last message that the reader has; 0 before the first. */
  readonly seq: number;
  /** UTF-16 units of the message's text and reasoning that the reader has. Undefined if it has the complete message. */
  readonly within: { readonly text: number; readonly reasoning: number } | undefined;
  /** Undefined for a cursor that only states a start position, and nothing of what was read before. */
  readonly proof: CursorCheck | undefined;
}

/**
 * Hashes of what the reader has. They detect a store that lost its last writes and then continued with other content at
 * the same position.
 */
export interface CursorCheck {
  /** Hash of the rewinds that the reader knows. */
  readonly cuts: number;
  /** Hash of the message's id; 0 for none. */
  readonly message: number;
  /** Hash of the received content of a growing message; otherwise 0. */
  readonly content: number;
}

const BEGINNING: Cursor = { cuts: 0, seq: 0, within: undefined, proof: undefined };
const CURSOR =
  /^([a-z0-9]{1,7})-(\d{1,15})\.(\d{1,15})(?:\.(\d{1,15})\.(\d{1,15}))?(?:-([a-z0-9]{1,7})\.([a-z0-9]{1,7})\.([a-z0-9]{1,7}))?$/;

/**
 * Formats a cursor, which is opaque to clients. It consists of a hash of the session, the position, and the check. The
 * position is `cuts.seq` after a message, or `cuts.seq.text.reasoning` in a growing one.
 */
export function formatCursor(rootId: string, { cuts, seq, within, proof }: Cursor): string {
  const place = `${cuts}.${seq}${within ? `.${within.text}.${within.reasoning}` : ""}`;
  const hashes = proof && [proof.cuts, proof.message, proof.content].map((hash) => hash.toString(36)).join(".");
  return `${hashOf(rootId).toString(36)}-${place}${hashes === undefined ? "" : `-${hashes}`}`;
}

/** Throws `InputError` for an invalid cursor, and for a cursor of another session. */
export function parseCursor(rootId: string, text: string): Cursor {
  if (text === "") return BEGINNING;
  const match = CURSOR.exec(text);
  if (!match) throw new InputError("after", "a cursor, such as the id of an event");
  if (match[1] !== hashOf(rootId).toString(36))
    throw new InputError("after", "a cursor of this session, got one of another");
  const [cuts, seq, ofText, ofReasoning] = match.slice(2, 6).map(Number) as [number, number, number, number];
  const [ofCuts, ofMessage, contentHash] = match.slice(6).map((hash) => parseInt(hash, 36)) as [number, number, number];
  return {
    cuts,
    seq,
    within: match[4] === undefined ? undefined : { text: ofText, reasoning: ofReasoning },
    proof: match[6] === undefined ? undefined : { cuts: ofCuts, message: ofMessage, content: contentHash },
  };
}

/**
 * Whether the store contains, visible or hidden, what a reader with this cursor has received. After a power failure the
 * store may have lost its last writes and continued with other content.
 */
export async function isStored(store: SessionDriver, rootId: string, { cuts, seq, proof }: Cursor): Promise<boolean> {
  const head = await store.head(rootId, { messages: false });
  const rewinds = head?.original.rewinds ?? [];
  if (seq > (head?.newest.lastSeq ?? 0) || cuts > rewinds.length) return false;
  if (!proof) return true;
  if (hashOfRewinds(rewinds.slice(0, cuts)) !== proof.cuts) return false;
  if (proof.message === 0) return true;
  const place = { scope: "chain", after: seq - 1, before: seq + 1 } as const;
  const isIt = (messages: readonly { id: string }[]): boolean =>
    messages.some(({ id }) => hashOf(id) === proof.message);
  if (isIt(await store.messages(rootId, place))) return true;
  // Read the snapshots again: a revert may have hidden the message in the meantime.
  for (const { id: hiddenBy } of (await store.head(rootId, { messages: false }))?.snapshots ?? [])
    if (isIt(await store.messages(rootId, { ...place, hiddenBy }))) return true;
  return false;
}

/** FNV-1a with 32 bits, which is sufficient to detect errors. `soFar`: hash of the preceding text. */
export function hashOf(text: string, soFar = 0x811c9dc5): number {
  let hash = soFar;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}

export function hashOfRewinds(cuts: readonly number[]): number {
  return cuts.length === 0 ? 0 : hashOf(cuts.join("."));
}
