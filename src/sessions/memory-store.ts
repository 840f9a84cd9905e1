import type { ChainData, Lease, MessagePage, SessionData } from "../ports/session-driver.js";
import type { Message } from "../ports/message.js";
import type { RunRecord } from "../ports/run.js";
import type { Session, Snapshot } from "../ports/session.js";

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
  /** By id, each with the fence under which it was last written. */
  readonly runs = new Map<string, { run: RunRecord; fence: number | null }>();
  /** By the id of the chain's original. */
  readonly leases = new Map<string, Lease>();
  fence = 0;

  /** A copy of the chain that a session belongs to, its sessions by index; undefined when there is none. */
  dump(id: string): ChainData | undefined {
    const chain = this.sessions.get(id)?.chain;
    if (!chain) return undefined;
    const messages = [...chain.messages.values()].sort((a, b) => a.message.seq - b.message.seq);
    const sessions = [...chain.sessions.values()]
      .sort((a, b) => a.session.chain.index - b.session.chain.index)
      .map(({ session, cut, view }): SessionData => {
        return { session, cut, view, messages: messages.filter(({ message }) => message.sessionId === session.id) };
      });
    const { root } = sessions[0]!.session.chain;
    return structuredClone({ sessions, snapshots: chain.snapshots, runs: this.runsOf(root).map(({ run }) => run) });
  }

  /** Take a chain in, as `dump` gave it; it is the store's own then. Its ids and keys must be free. */
  load({ sessions, snapshots, runs }: ChainData): void {
    const chain: Chain = { ...newChain(), snapshots };
    for (const { session, cut, view, messages } of sessions) {
      const stored: StoredSession = { session, cut, view, chain };
      chain.sessions.set(session.chain.index, stored);
      this.sessions.set(session.id, stored);
      if (session.alias !== "") this.aliases.set(session.alias, session.id);
      for (const kept of messages) {
        chain.messages.set(kept.message.seq, kept);
        if (!kept.message.finished) chain.growing.set(kept.message.id, kept);
      }
    }
    for (const run of runs) this.runs.set(run.id, { run, fence: null });
  }

  /** Runs of the chain with this original, or all; newest first. */
  runsOf(root: string | undefined): { run: RunRecord; fence: number | null }[] {
    const found = [...this.runs.values()].filter(({ run }) => root === undefined || run.sessionId === root);
    return found.sort((a, b) => newestFirst(a.run.startedAt, a.run.id, b.run.startedAt, b.run.id));
  }
}

/** One without anything. */
export function newChain(): Chain {
  return { sessions: new Map(), messages: new Map(), growing: new Map(), snapshots: [] };
}

/** The order of lists: by time, ties by id, the greatest first. */
export function newestFirst(time: string, id: string, otherTime: string, otherId: string): number {
  if (time !== otherTime) return time > otherTime ? -1 : 1;
  return id === otherId ? 0 : id > otherId ? -1 : 1;
}

/** The session with the greatest index that no cut hides. */
export function newestOf({ sessions }: Chain): StoredSession | undefined {
  const visible = [...sessions.values()].filter(({ cut }) => cut === "");
  return visible.sort((a, b) => b.session.chain.index - a.session.chain.index)[0];
}

/** What was said in a session, or in its chain: the store's own objects. */
export function said({ session, chain }: StoredSession, page: MessagePage): Message[] {
  const { after = 0, before = Infinity, limit = Infinity, hiddenBy } = page;
  const found = [...chain.messages.values()]
    .filter(({ cut }) => (hiddenBy === undefined ? cut === "" : cut === hiddenBy && cut !== ""))
    .map(({ message }) => message)
    .filter(({ seq, sessionId }) => seq > after && seq < before && (page.scope === "chain" || sessionId === session.id))
    .sort((a, b) => a.seq - b.seq);
  const last = page.after === undefined && page.before !== undefined && found.length > limit;
  return last ? found.slice(found.length - limit) : found.slice(0, limit);
}

/** Hide what is behind a point, and the sessions behind this one. */
export function cutChain(stored: StoredSession, snapshot: Snapshot): void {
  const { chain, session } = stored;
  for (const hidden of chain.messages.values()) {
    if (hidden.cut === "" && hidden.message.seq > snapshot.after) hidden.cut = snapshot.id;
  }
  for (const hidden of chain.sessions.values()) {
    if (hidden.cut === "" && hidden.session.chain.index > session.chain.index) hidden.cut = snapshot.id;
  }
  chain.snapshots.push({ ...snapshot });
}

/** Show what a snapshot hides. */
export function restoreChain(chain: Chain, snapshotId: string): void {
  for (const hidden of [...chain.messages.values(), ...chain.sessions.values()]) {
    if (hidden.cut === snapshotId) hidden.cut = "";
  }
  chain.snapshots = chain.snapshots.filter((snapshot) => snapshot.id !== snapshotId);
}
