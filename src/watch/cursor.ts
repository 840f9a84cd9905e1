import { InputError } from "../ports/errors.js";
import type { SessionDriver } from "../ports/session-driver.js";

/** A position in the messages of a session. */
export interface Cursor {
  /** Number of rewinds that the reader knows, counting restores. */
  readonly rewindCount: number;
  /** `seq` of the last message that the reader has; 0 before the first. */
  readonly seq: number;
  /**
   * UTF-16 units of the message's text and reasoning that the reader has. Undefined if the reader has the complete
   * message.
   */
  readonly receivedLengths: { readonly text: number; readonly reasoning: number } | undefined;
  /** Undefined for a cursor that only gives a start position, without anything received before. */
  readonly check: CursorCheck | undefined;
}

/**
 * Hashes of the content that the reader has. They detect a store that lost its last writes and then continued with
 * other content at the same position.
 */
export interface CursorCheck {
  /** Hash of the rewinds that the reader knows. */
  readonly rewindsHash: number;
  /** Hash of the message's id; 0 for none. */
  readonly messageHash: number;
  /** Hash of the received content of a growing message; otherwise 0. */
  readonly contentHash: number;
}

const START_CURSOR: Cursor = { rewindCount: 0, seq: 0, receivedLengths: undefined, check: undefined };
const CURSOR_PATTERN =
  /^([a-z0-9]{1,7})-(\d{1,15})\.(\d{1,15})(?:\.(\d{1,15})\.(\d{1,15}))?(?:-([a-z0-9]{1,7})\.([a-z0-9]{1,7})\.([a-z0-9]{1,7}))?$/;

/**
 * Formats a cursor, which is opaque to clients. It consists of a hash of the session, the position, and the check. The
 * position is `rewinds.seq` after a message, or `rewinds.seq.text.reasoning` in a growing message.
 */
export function formatCursor(rootId: string, { rewindCount, seq, receivedLengths, check }: Cursor): string {
  const positionText = `${rewindCount}.${seq}${receivedLengths ? `.${receivedLengths.text}.${receivedLengths.reasoning}` : ""}`;
  const hashes =
    check && [check.rewindsHash, check.messageHash, check.contentHash].map((hash) => hash.toString(36)).join(".");
  return `${computeHash(rootId).toString(36)}-${positionText}${hashes === undefined ? "" : `-${hashes}`}`;
}

/**
 * Parses a cursor; `""` is the start. Throws `InputError` for an invalid cursor, and for a cursor of another session.
 */
export function parseCursor(rootId: string, text: string): Cursor {
  if (text === "") return START_CURSOR;
  const match = CURSOR_PATTERN.exec(text);
  if (!match) throw new InputError("after", "a cursor, such as the id of an event");
  if (match[1] !== computeHash(rootId).toString(36))
    throw new InputError("after", "a cursor of this session, got one of another");
  const [rewindCount, seq, textLength, reasoningLength] = match.slice(2, 6).map(Number) as [
    number,
    number,
    number,
    number,
  ];
  const [rewindsHash, messageHash, contentHash] = match.slice(6).map((hash) => parseInt(hash, 36)) as [
    number,
    number,
    number,
  ];
  return {
    rewindCount,
    seq,
    receivedLengths: match[4] === undefined ? undefined : { text: textLength, reasoning: reasoningLength },
    check: match[6] === undefined ? undefined : { rewindsHash, messageHash, contentHash },
  };
}

/**
 * Whether the store contains, visible or hidden, the content that a reader with this cursor has received. After a power
 * failure the store may have lost its last writes and continued with other content.
 */
export async function isCursorStored(
  store: SessionDriver,
  rootId: string,
  { rewindCount, seq, check }: Cursor,
): Promise<boolean> {
  const head = await store.head(rootId, { messages: false });
  const rewinds = head?.root.rewinds ?? [];
  if (seq > (head?.newest.lastSeq ?? 0) || rewindCount > rewinds.length) return false;
  if (!check) return true;
  if (hashRewinds(rewinds.slice(0, rewindCount)) !== check.rewindsHash) return false;
  if (check.messageHash === 0) return true;
  const query = { scope: "chain", after: seq - 1, before: seq + 1 } as const;
  const includesMessage = (messages: readonly { id: string }[]): boolean =>
    messages.some(({ id }) => computeHash(id) === check.messageHash);
  if (includesMessage(await store.messages(rootId, query))) return true;
  // Read the snapshots again: a revert may have hidden the message in the meantime.
  for (const { id: hiddenBy } of (await store.head(rootId, { messages: false }))?.snapshots ?? [])
    if (includesMessage(await store.messages(rootId, { ...query, hiddenBy }))) return true;
  return false;
}

/** Computes the FNV-1a hash with 32 bits, sufficient to detect errors. `prefixHash`: hash of the preceding text. */
export function computeHash(text: string, prefixHash = 0x811c9dc5): number {
  let hash = prefixHash;
  for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}

export function hashRewinds(rewinds: readonly number[]): number {
  return rewinds.length === 0 ? 0 : computeHash(rewinds.join("."));
}

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
