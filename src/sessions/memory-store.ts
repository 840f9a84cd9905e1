import type { ChainData, Lease, SessionData } from "../ports/session-driver.js";
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

  /** Take a chain in, as `dump` gave it, in place of what there is of it; it is the store's own then. Its ids and keys must be free. */
  load({ sessions, snapshots, runs }: ChainData): void {
    const chain: Chain = { ...newChain(), snapshots };
    this.#drop(sessions[0]?.session.id ?? "");
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

  /** Let go of the chain with this original, its runs and its lease. */
  remove(root: string): void {
    this.#drop(root);
    this.leases.delete(root);
    for (const { run } of this.runsOf(root)) this.runs.delete(run.id);
  }

  /** Runs of the chain with this original, or all; newest first. */
  runsOf(root: string | undefined): { run: RunRecord; fence: number | null }[] {
    const found = [...this.runs.values()].filter(({ run }) => root === undefined || run.sessionId === root);
    return found.sort((a, b) => newestFirst([a.run.startedAt, a.run.id], [b.run.startedAt, b.run.id]));
  }

  #drop(root: string): void {
    for (const { session } of this.sessions.get(root)?.chain.sessions.values() ?? []) {
      this.sessions.delete(session.id);
      this.aliases.delete(session.alias);
    }
  }
}

export function newChain(): Chain {
  return { sessions: new Map(), messages: new Map(), growing: new Map(), snapshots: [] };
}

type Place = readonly [time: string, id: string];

/** The order of lists: by time, ties by id, the greatest first. */
export function newestFirst([time, id]: Place, [otherTime, otherId]: Place): number {
  if (time !== otherTime) return time > otherTime ? -1 : 1;
  return id === otherId ? 0 : id > otherId ? -1 : 1;
}
