import type { Ask } from "./ask.js";
import type { LeaseHolder } from "./holder.js";
import type { Message } from "./message.js";
import type { Instruction, RunRecord } from "./run.js";
import type { Session, Snapshot } from "./session.js";
import type { SessionStart, SessionChange, ChangeResult } from "./session-change.js";
import type { SessionQuery, SessionPage, MessageQuery, RunQuery, StoredRun, AskQuery } from "./session-queries.js";
import type { MessageSearchPage, MessageSearchQuery } from "./session-queries.js";

/** The part of a chain that its next run needs. */
export interface LeaseHead {
  /** The chain's first session. */
  root: Session;
  /** The session with the greatest index that no revert hides; the original if there is no other. */
  newest: Session;
  /** The view of `newest`, then its messages: everything that a model needs. `shown` may be absent. */
  messages: Message[];
  /**
   * The chain's runs stored as `queued`, `running` or `waiting`, newest first. The holder of the chain's lease treats
   * them as interrupted, except queued runs with a live process.
   */
  unfinished: RunRecord[];
}

/** The head with the data for an undo. */
export interface ChainHead extends LeaseHead {
  /** Snapshots of the chain that can be restored, oldest first. */
  snapshots: Snapshot[];
}

/** The right to write to a chain. */
export interface Lease {
  rootId: string;
  holder: LeaseHolder;
  /**
   * Increases with every change of holder, also across releases, deletes and restarts. A store may count one
   * fence for all chains.
   */
  fence: number;
  /** ISO 8601 UTC, by the store's clock. */
  expiresAt: string;
  /**
   * Fence of the chain's previous lease. The holder of that lease can conclude that no messages changed since.
   *
   * Undefined if the store does not know it: always after a delete, and after messages changed without a lease. A
   * follow-up, a revert or a restore without a lease also counts.
   */
  previous?: number;
}

/** Options of `lease`. */
export interface LeaseOptions {
  /** Fence of the lease to replace; set if the caller has found its holder dead. */
  fenceToReplace?: number;
  /**
   * Requests the chain's head under the lease. The messages may be absent in two cases:
   *
   * - `messages` is false.
   * - The chain's previous lease had the fence `cachedFence`, so that the caller has the messages.
   */
  head?: { messages: boolean; cachedFence?: number };
}

/** A lease that was granted. */
export interface AcquiredLease extends Lease {
  /** Set if it was requested and the session exists. Without snapshots, because runs need none. */
  head?: LeaseHead;
}

/** The current lease of another holder, without `previous`. */
export interface LeaseConflict {
  heldBy: Lease;
}

/** Complete data of one session, as JSON. */
export interface SessionData {
  session: Session;
  /** Snapshot that hides the session; `""` for none. */
  hiddenBy: string;
  /** The compacted view with which a follow-up started. */
  view: Message[];
  /** Messages in `seq` order, each with the snapshot that hides it (`""` for none). */
  messages: { message: Message; hiddenBy: string }[];
}

/** Complete data of a chain, as JSON: the content of `gantry sessions export`. */
export interface ChainData {
  /** Ordered by index, the original first; includes hidden sessions. */
  sessions: SessionData[];
  /** Oldest first. */
  snapshots: Snapshot[];
  /** Newest first, as stored. */
  runs: RunRecord[];
  /** Newest first, as stored. */
  asks: Ask[];
}

/**
 * Notifies a process that other processes changed a store, without the details. A notification can come twice or
 * without a change. A notification follows every change: if messages between processes can get lost, the notifier also
 * sends a notification every second.
 */
export interface Notifier {
  /**
   * Reports that this process changed a chain; `rootId` is the id of the chain's original. Never throws and never
   * blocks.
   */
  publish(rootId: string): void;
  /**
   * Calls `hint`, usually within 250 ms, when another process may have changed the chain. Changes published by this
   * process need not be reported. The returned function unsubscribes. A subscription does not keep an otherwise idle
   * process alive.
   */
  subscribe(rootId: string, hint: () => void): () => void;
}

/**
 * A store of sessions. The kernel implements every rule; a driver only stores and finds.
 *
 * **Concurrency.** Any number of processes may share one store. No method fails because another process is writing. All
 * readers see a change when its promise has resolved. Simultaneous calls take effect one after the other in some order,
 * and each sees all earlier ones. A call that resolves before another starts comes first. Readers never see half of a
 * change, and each result belongs to one moment. The conditions of a change (fence, key, `seq`, existing session) are
 * checked in the transaction that makes it. Calls of one process that are not awaited take effect in the order of the
 * calls; a rejected call does not affect the others.
 *
 * **Lost answers.** If the connection breaks before the answer to a change arrives, the driver finds the change made,
 * or makes it then, never twice. Only if the store stays unavailable does the driver report a failure although the
 * change may have been made.
 *
 * **Values.** Ids are arbitrary, case-sensitive text, independent of file system rules. Ids and aliases of sessions
 * share one namespace. Text is returned as stored, including NUL and control characters. A lone surrogate may be
 * replaced; a pair that was split over two appends is complete. Arguments and results belong to the caller: later
 * changes to them do not reach the store.
 *
 * **Lifetime.** Only leases expire automatically. Keys stay until they are freed. Instructions and asks stay until they
 * are consumed, withdrawn or deleted with their chain. A reopened driver finds everything unchanged.
 *
 * **Errors.** Every method except `open` and `close` rejects with `StoreError` if the store is closed, unreadable or
 * not writable. Each method names its other errors. Optional members are for drivers that can do better than the
 * kernel's fallback.
 */
export interface SessionDriver {
  readonly name: string;
  /**
   * Difference between the store's clock and that of this process (`Date.now()`), in ms; positive if the store's clock
   * is ahead. Processes compare only times of the store's clock, because the clocks of hosts differ. May change while
   * the store is open. Undefined: 0.
   */
  readonly clockOffsetMs?: number;
  /**
   * Whether the driver stores `owner` and `shared` of sessions, and its queries obey `visibleTo`. Undefined or false: the
   * store cannot separate users, so an agent refuses to act for one.
   */
  readonly separatesUsers?: boolean;
  /** Opens the store. Rejects with `StoreError` if it is unusable. A store of a newer version stays unmodified. */
  open(): Promise<void>;
  /**
   * Rejects new calls, waits for active ones, then releases all resources. Other drivers on the store are not affected.
   * Safe to call twice; the driver can be reopened.
   */
  close(): Promise<void>;
  /**
   * Creates a session with its initial data, atomically. Rejects with:
   *
   * - `SessionExistsError` if the id, the alias (among ids and aliases, including its own id) or the chain's index
   *   (also of a hidden session) is in use. The error has the id or alias in use; for an index, the id of the new
   *   session.
   * - `SeqTakenError` if a `seq` is in use, also within the given messages.
   * - `RunKeyTakenError`.
   * - `SessionNotFoundError` if the original of a follow-up does not exist.
   * - `LeaseLostError` if `fence` is set and is not the chain's current fence.
   */
  create(start: SessionStart): Promise<void>;
  /**
   * Finds a session by id or alias (`""` is no alias). `head` also accepts both; every other method accepts only ids.
   * Undefined if no session matches.
   */
  get(id: string): Promise<Session | undefined>;
  /**
   * The state from which the next run starts, read at one moment, by any id of the chain or an alias. Undefined for an
   * unknown id. With `messages: false` the messages may be absent, for a caller that has them.
   */
  head(id: string, options?: { messages: boolean }): Promise<ChainHead | undefined>;
  /**
   * Lists only originals, newest `updatedAt` first, ties by greatest id first. Uses an index. Sessions that do not move
   * meanwhile appear on exactly one page, despite concurrent writes.
   */
  list(query: SessionQuery): Promise<SessionPage>;
  /** Messages in `seq` order, independent of the clock. Uses an index. Empty for an unknown session. */
  messages(id: string, page?: MessageQuery): Promise<Message[]>;
  /** Uses an index, also for a query by states. Empty for an unknown session or id. */
  runs(query: RunQuery): Promise<StoredRun[]>;
  /** Uses an index. Empty for an unknown session or id. */
  asks(query: AskQuery): Promise<Ask[]>;
  /**
   * Instructions of a chain (any id of it), in the order of arrival. Rejects with `SessionNotFoundError`: a polling run
   * detects with it that its session was deleted.
   */
  instructions(sessionId: string): Promise<Instruction[]>;
  /**
   * Changes a session. Rejects with:
   *
   * - `SessionNotFoundError`, `SeqTakenError` or `RunKeyTakenError`.
   * - `PointNotFoundError`: the chain has no such snapshot or no such growing message.
   * - `LeaseLostError`: the fence is not the chain's current one or was released. An expired fence still counts until
   *   another holder takes the lease.
   *
   * A rejected change has no effect. A change with `release` either returns an instruction, or is already visible to
   * the sender that stores it.
   */
  write(id: string, change: SessionChange): Promise<ChangeResult>;
  /**
   * Deletes complete chains (by any of their ids): messages, snapshots, runs, asks, instructions and leases, including
   * hidden data. Unknown ids are ignored, so the call can be repeated. All unique values become free. A later write of
   * a holder is rejected, also if the id is reused. Forks and other sessions made from the chain stay.
   */
  delete(ids: readonly string[]): Promise<void>;
  /**
   * Takes or renews the right to write to a chain. A renewal has the same `holder.id` and keeps the fence. There is one
   * holder at a time across processes and hosts.
   *
   * - An expired holder is replaced at once. The holder of a lease with the fence `fenceToReplace` is also replaced at
   *   once, because the caller has found that its process is dead.
   * - No other holder is replaced before its lease expires. If several callers replace the same holder, exactly one
   *   succeeds.
   * - Otherwise the result is the current holder's lease.
   *
   * `rootId` may be the id of any session of the chain, or of a session that does not exist yet. The lease then belongs
   * to the chain that this session will start. The result contains the id of the chain's first session. A renewal
   * changes only `expiresAt`.
   */
  lease(
    rootId: string,
    holder: LeaseHolder,
    ttlMs: number,
    options?: LeaseOptions,
  ): Promise<AcquiredLease | LeaseConflict>;
  /**
   * Complete data of the chain of a session (any id of the chain), read at one moment, including hidden data and the
   * current text of growing messages. Undefined for an unknown id. Leases and instructions are not included.
   */
  dump(id: string): Promise<ChainData | undefined>;
  /**
   * Stores a chain that `dump` of any driver returned, atomically. Growing messages can continue to grow after their
   * stored text; no holder has its runs. Only its original is listed and counted. Rejects with `SessionExistsError` if
   * an id or alias of the chain is in use, and with `RunKeyTakenError` if an id or key of its runs is in use.
   */
  load(chain: ChainData): Promise<void>;
  /**
   * Notifies the processes that share the store of each other's changes. Usable while the store is open. Undefined: the
   * kernel reads the store five times a second while it waits for another process.
   */
  readonly notifier?: Notifier;
  /**
   * Checks that the store accepts changes, within two seconds. Rejects with the `StoreError` of a change. Undefined: the
   * kernel reads a session.
   */
  probe?(): Promise<void>;
  /**
   * Resolves when everything stored so far is on disk (with the driver's full durability). For drivers that can
   * distinguish a made change from a synced change; other calls proceed meanwhile. Undefined: a change with `sync`
   * resolves when it is on disk.
   */
  synced?(): Promise<void>;
  /**
   * Frees the keys of runs that started before a time (ISO 8601 UTC), and removes their answers. Active runs keep their
   * keys. Undefined: the kernel frees an old key when it is used again, and answers stay until their chain is deleted.
   */
  forgetKeys?(before: string): Promise<void>;
  /**
   * Finds messages by their words, also unfinished ones. Pages contain every message once that stays unchanged
   * meanwhile. A call takes a few seconds at most: the driver may update an index during the call. Deleted and hidden
   * messages are never found, whatever the index contains. Rejects with `InputError` for an invalid `before`.
   *
   * Undefined: the kernel reads the messages of all sessions, newest session first.
   */
  searchMessages?(query: MessageSearchQuery): Promise<MessageSearchPage>;
}
