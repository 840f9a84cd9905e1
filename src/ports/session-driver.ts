import type { Message } from "./message.js";
import type { ReasoningEffort } from "./model-provider.js";
import type { Session, Snapshot } from "./session.js";
import type { Usage } from "./usage.js";

/** What `list` returns: matching originals, the newest first, at most `limit` of them. */
export interface SessionQuery {
  projectDir?: string;
  /** Part of the title; both are compared as JavaScript's `toLowerCase` makes them. */
  search?: string;
  /** Only sessions that never got a message and were last updated before this timestamp. */
  emptyBefore?: string;
  limit: number;
  /** Skip so many; or start behind a known entry. Not both. */
  offset?: number;
  before?: { updatedAt: string; id: string };
}

/** One page of a list. */
export interface SessionPage {
  sessions: Session[];
  /** All that match, from kept counters where there is no `search`. */
  total: number;
}

/** A page of messages in ascending `seq`. */
export interface MessagePage {
  /** Only messages with a greater `seq`; the first `limit` of them. */
  after?: number;
  /** Only messages with a smaller `seq`; the last `limit` of them. With both, the range between, its first `limit`. */
  before?: number;
  limit?: number;
  /** `session` (default): those said in this session. `chain`: those of its whole chain, wherever they are stored. */
  scope?: "session" | "chain";
  /** Whether messages cut by a revert come too. Default false. */
  includeCut?: boolean;
  /** Only messages that the cut of this snapshot hides; `includeCut` says nothing then. `""` hides nothing, so nothing comes. */
  hiddenBy?: string;
}

/** Who holds a lease: enough to tell, on the same host, whether that process still lives. */
export interface Holder {
  /** Unique to the run that asked. */
  id: string;
  host: string;
  /** Boot id of the host; a holder of another boot is gone. */
  boot: string;
  pid: number;
  /** Start time of the process in the host's own unit, so that a reused pid is not mistaken; `""` where unknown. */
  started: string;
}

/** The right to write to a chain. */
export interface Lease {
  rootId: string;
  holder: Holder;
  /** Grows with every change of holder, also across releases and deletes. */
  fence: number;
  /** ISO 8601 UTC. */
  expiresAt: string;
}

/** Text that a growing message gained. Deltas with the same `part` index are one part; parts stand in the order of their index, whenever each began. */
export interface PartDelta {
  messageId: string;
  /** Index of the part in the message. */
  part: number;
  type: "text" | "reasoning";
  text: string;
}

/** Fields that a change sets; left out ones stay. */
export interface SessionFields {
  /** Being unique, it reaches this session alone. */
  alias?: string;
  title?: string;
  titled?: boolean;
  provider?: string;
  model?: string;
  reasoningEffort?: ReasoningEffort;
  projectDir?: string;
  /** Ignored where the stored one is later. */
  updatedAt?: string;
}

/**
 * One change, whole or not at all. `set` and `usage` reach the session and, of a follow-up, its chain's original too,
 * so that lists of originals need no join.
 */
export interface SessionChange {
  /** Of the lease under which the change is made; null for changes of fields alone that need none (a title). */
  fence: number | null;
  /** Whether it must be on the disk when the promise resolves (with the driver's full durability). */
  sync: boolean;
  set?: SessionFields;
  /** Added to the counters. */
  usage?: Usage;
  /** New messages; one with `finished: false` may grow. */
  add?: readonly Message[];
  /** Appended to growing messages. */
  append?: readonly PartDelta[];
  /** Final forms of growing messages; they replace what had grown. The stored `sessionId` and `seq` stay, whatever these say. */
  finish?: readonly Message[];
  /**
   * Undo the cut of this snapshot; applied after `cut`, so that one change swaps what was said since for what it hid.
   * The snapshot is gone then.
   */
  restore?: string;
  /**
   * Hide the chain's messages with a greater `seq` than `after`, and its sessions with a greater index than this one's,
   * under a new snapshot. One statement each, never a rewrite. Already hidden ones keep their snapshot.
   * Applied before messages are added.
   */
  cut?: Snapshot;
}

/** All of one session, as JSON. */
export interface SessionData {
  session: Session;
  /** Snapshot that hides it; `""` for none. */
  cut: string;
  /** The compacted view that a follow-up began with. */
  view: Message[];
  /** In `seq` order, each with the snapshot that hides it. `grown`: of a growing message, the index that deltas give to each of its parts, where it is not the part's place. */
  messages: { message: Message; cut: string; grown?: number[] }[];
}

/** All of a chain, as JSON: what `gantry sessions export` writes. */
export interface ChainData {
  /** By index, the original first; hidden ones too. */
  sessions: SessionData[];
  /** Oldest first. */
  snapshots: Snapshot[];
}

/**
 * Where sessions live. The kernel owns every rule; a driver only stores and finds.
 * Any number of processes may share one store; no method ever fails because another process is writing.
 * Calls of one process that nobody awaited take effect in the order in which they were made.
 */
export interface SessionDriver {
  readonly name: string;
  /** Ready the store. Rejects with `StoreError` when it cannot be used; a store of a newer version is left untouched. */
  open(): Promise<void>;
  /** Wait for what is under way, then let go of everything. Safe to call twice. */
  close(): Promise<void>;
  /**
   * With its first messages and, of a follow-up, its compacted view; whole or not at all. `SessionExistsError` when the
   * id, the alias or the chain's index (also of a cut session) is taken, `SeqTakenError`, `SessionNotFoundError` when a
   * follow-up's original is gone. With a `fence`, `LeaseLostError` when it is not the chain's current one.
   */
  create(
    session: Session,
    messages?: readonly Message[],
    view?: readonly Message[],
    fence?: number | null,
  ): Promise<void>;
  /** By id or by alias; every other method takes ids alone. */
  get(id: string): Promise<Session | undefined>;
  /** The session of a chain with the greatest index that is not cut, by an index; `rootId` may be any session's id of the chain. */
  newest(rootId: string): Promise<Session | undefined>;
  /** Originals only, by `updatedAt`, newest first, ties by id, greatest first. */
  list(query: SessionQuery): Promise<SessionPage>;
  /** In `seq` order. Empty for an unknown session. */
  messages(id: string, page?: MessagePage): Promise<Message[]>;
  /** The compacted view that a follow-up began with; empty for an original. */
  view(id: string): Promise<Message[]>;
  /** Snapshots of the chain that can be restored, oldest first. */
  snapshots(id: string): Promise<Snapshot[]>;
  /** Rejects with `SessionNotFoundError`, `SeqTakenError`, `SessionExistsError` (alias taken), `PointNotFoundError` (no such snapshot, no such growing message in the chain), or `LeaseLostError` when the fence is not the chain's current one or was released. */
  write(id: string, change: SessionChange): Promise<void>;
  /** Chains whole (given any of their ids), with messages, snapshots and leases. Unknown ids are ignored. A later write of a holder rejects. */
  delete(ids: readonly string[]): Promise<void>;
  /**
   * Take or renew (same `holder.id`) the right to write to a chain: one holder at a time across processes and hosts.
   * A holder whose time ran out, or that `isGone` says is dead, is replaced at once, and nobody else ever is. Else tells
   * who has it. `rootId` may be any session's id of the chain; the lease names its root.
   */
  lease(
    rootId: string,
    holder: Holder,
    ttlMs: number,
    isGone: (holder: Holder) => boolean,
  ): Promise<Lease | { heldBy: Holder }>;
  /** Give a lease back; nothing happens when it is no longer held. */
  release(lease: Lease): Promise<void>;
  /** All of the chain that a session (any id of the chain) belongs to, hidden parts included, as of one moment; undefined for an unknown one. Leases are no part of it. */
  dump(id: string): Promise<ChainData | undefined>;
  /** Take a chain in as `dump` gave it, of whichever driver; whole or not at all. `SessionExistsError` when one of its ids or aliases is taken. */
  load(chain: ChainData): Promise<void>;
}
