import type { ChainData, Lease, SessionData } from "../ports/session-driver.js";
import type { Message, Part } from "../ports/message.js";
import type { Session, Snapshot } from "../ports/session.js";

export interface StoredMessage {
  message: Message;
  /** Snapshot that hides it; `""` for none. */
  cut: string;
  /** Parts of a growing message by the index that deltas give. */
  grown: Map<number, Part>;
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
  messages: Map<number, StoredMessage>;
  /** By message id. */
  growing: Map<string, StoredMessage>;
  snapshots: Snapshot[];
}

/** What memory drivers keep; several drivers given the same one behave like processes that share a store. */
export class MemoryStore {
  readonly sessions = new Map<string, StoredSession>();
  /** Alias to id. */
  readonly aliases = new Map<string, string>();
  /** By the id of the chain's original. */
  readonly leases = new Map<string, Lease>();
  fence = 0;

  /** A copy of the chain that a session belongs to, its sessions by index; undefined when there is none. */
  dump(id: string): ChainData | undefined {
    const chain = this.sessions.get(id)?.chain;
    if (!chain) return undefined;
    const bySession = new Map<string, SessionData>();
    const inOrder = [...chain.sessions.values()].sort((a, b) => a.session.chain.index - b.session.chain.index);
    for (const { session, cut, view } of inOrder) bySession.set(session.id, { session, cut, view, messages: [] });
    for (const { message, cut, grown } of [...chain.messages.values()].sort((a, b) => a.message.seq - b.message.seq)) {
      const indexes = message.finished ? [] : message.parts.map((part) => indexOf(grown, part));
      const growing = indexes.every((index, place) => index === place) ? {} : { grown: indexes };
      bySession.get(message.sessionId)?.messages.push({ message, cut, ...growing });
    }
    return structuredClone({ sessions: [...bySession.values()], snapshots: chain.snapshots });
  }

  /** Take a chain in, as `dump` gave it. Its ids must be free. */
  load(data: ChainData): void {
    const { sessions, snapshots } = structuredClone(data);
    const chain = newChain();
    chain.snapshots = snapshots;
    for (const { session, cut, view, messages } of sessions) {
      const stored: StoredSession = { session, cut, view, chain };
      chain.sessions.set(session.chain.index, stored);
      this.sessions.set(session.id, stored);
      if (session.alias !== "") this.aliases.set(session.alias, session.id);
      for (const { message, cut: hidden, grown } of messages) {
        const parts = message.parts.map((part, at): [number, Part] => [grown?.[at] ?? at, part]);
        const kept: StoredMessage = { message, cut: hidden, grown: new Map(message.finished ? [] : parts) };
        chain.messages.set(message.seq, kept);
        if (!message.finished) chain.growing.set(message.id, kept);
      }
    }
  }
}

export function newChain(): Chain {
  return { sessions: new Map(), messages: new Map(), growing: new Map(), snapshots: [] };
}

function indexOf(grown: ReadonlyMap<number, Part>, part: Part): number {
  for (const [index, candidate] of grown) if (candidate === part) return index;
  return 0;
}
