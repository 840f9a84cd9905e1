import { PointNotFoundError, SeqTakenError } from "../ports/errors.js";
import type { MessagePage, PartDelta, SessionChange } from "../ports/session-driver.js";
import type { Message } from "../ports/message.js";
import type { Session, Snapshot } from "../ports/session.js";
import { Sorted } from "./sorted.js";

export interface StoredMessage {
  message: Message;
  /** Snapshot that hides it; `""` for none. */
  cut: string;
}

export interface StoredSession {
  session: Session;
  view: Message[];
  cut: string;
  chain: Chain;
}

export interface Chain {
  /** By index. */
  sessions: Map<number, StoredSession>;
  /** By seq. */
  messages: Sorted<StoredMessage>;
  /** By message id. */
  growing: Map<string, StoredMessage>;
  snapshots: Snapshot[];
}

/** One without anything. */
export function newChain(): Chain {
  const messages = new Sorted<StoredMessage>((a, b) => a.message.seq - b.message.seq);
  return { sessions: new Map(), messages, growing: new Map(), snapshots: [] };
}

/** The session with the greatest index that no cut hides. */
export function newestOf({ sessions }: Chain): StoredSession | undefined {
  let newest: StoredSession | undefined;
  for (const stored of sessions.values())
    if (stored.cut === "" && stored.session.chain.index >= (newest?.session.chain.index ?? 0)) newest = stored;
  return newest;
}

/** What was said in a session, or in its chain: the store's own objects. */
export function said({ session, chain }: StoredSession, page: MessagePage): Message[] {
  const { after = 0, before = Infinity, limit = Infinity, hiddenBy, tool } = page;
  const isWanted = ({ cut, message }: StoredMessage): boolean =>
    (hiddenBy === undefined ? cut === "" : cut === hiddenBy && cut !== "") &&
    (page.scope === "chain" || message.sessionId === session.id) &&
    (tool === undefined || message.name === tool);
  const { items } = chain.messages;
  const from = chain.messages.count(({ message }) => message.seq <= after);
  const to = chain.messages.count(({ message }) => message.seq < before);
  const found: Message[] = [];
  // The last ones are asked for: from behind.
  const last = page.after === undefined && page.before !== undefined;
  const step = last ? -1 : 1;
  for (let at = last ? to - 1 : from; at >= from && at < to && found.length < limit; at += step) {
    const stored = items[at] as StoredMessage;
    if (isWanted(stored)) found.push(stored.message);
  }
  return last ? found.reverse() : found;
}

/** Throws `SeqTakenError` when one of these cannot be added. */
export function checkSeqs({ messages }: Chain, added: readonly Message[]): void {
  const given = new Set<number>();
  for (const { seq } of added) {
    const next = messages.items[messages.count(({ message }) => message.seq < seq)];
    if (next?.message.seq === seq || given.has(seq)) throw new SeqTakenError(seq);
    given.add(seq);
  }
}

/** Throws `PointNotFoundError` when what this change says of growing messages is of none that is there. */
export function checkGrowing(chain: Chain, { add = [], append = [], finish = [] }: SessionChange): void {
  for (const id of [...append.map(({ messageId }) => messageId), ...finish.map((message) => message.id)])
    if (!chain.growing.has(id) && !add.some((message) => message.id === id && !message.finished))
      throw new PointNotFoundError("message");
}

/** Messages become the store's own. */
export function addMessages({ session, chain }: StoredSession, messages: readonly Message[]): void {
  for (const given of messages) {
    const stored = { message: { ...given, sessionId: session.id }, cut: "" };
    chain.messages.add(stored);
    if (!given.finished) chain.growing.set(given.id, stored);
    session.lastSeq = Math.max(session.lastSeq, given.seq);
  }
}

/** Text that a growing message gained. */
export function grow(chain: Chain, { messageId, part, type, text }: PartDelta): void {
  const parts = chain.growing.get(messageId)?.message.parts;
  const present = parts?.[part];
  if (present && "text" in present) present.text += text;
  else parts?.push({ type, text });
}

/** The final form of a growing message, which becomes the store's own. */
export function complete(chain: Chain, final: Message): void {
  const target = chain.growing.get(final.id);
  if (!target) return;
  const { seq, sessionId } = target.message;
  target.message = { ...final, seq, sessionId, finished: true };
  chain.growing.delete(final.id);
}

/** Hide what is behind a point, and the sessions behind this one. */
export function cutChain({ chain, session }: StoredSession, snapshot: Snapshot): void {
  for (const hidden of chain.messages.items) {
    if (hidden.cut === "" && hidden.message.seq > snapshot.after) hidden.cut = snapshot.id;
  }
  for (const hidden of chain.sessions.values()) {
    if (hidden.cut === "" && hidden.session.chain.index > session.chain.index) hidden.cut = snapshot.id;
  }
  chain.snapshots.push({ ...snapshot });
}

/** Show what a snapshot hides. */
export function restoreChain(chain: Chain, snapshotId: string): void {
  for (const hidden of [...chain.messages.items, ...chain.sessions.values()]) {
    if (hidden.cut === snapshotId) hidden.cut = "";
  }
  chain.snapshots = chain.snapshots.filter((snapshot) => snapshot.id !== snapshotId);
}
