import type { Ask, AskReply } from "./ask.js";
import type { Holder } from "./holder.js";
import type { Message } from "./message.js";
import type { ReasoningEffort } from "./model-provider.js";
import type { Notifier } from "./notifier.js";
import type { Instruction, RunRecord, RunState } from "./run.js";
import type { Leave, Session, SessionMode, Snapshot } from "./session.js";
import type { Usage } from "./usage.js";

/** What `list` returns: matching originals, the newest first, at most `limit` of them. Those of helpers are listed where they are asked for alone. */
export interface SessionQuery {
  /** Compared whole: a folder inside it is another one. */
  projectDir?: string;
  /** Part of the title, every character meant literally; both are compared as JavaScript's `toLowerCase` makes them. `""` finds all. */
  search?: string;
  /** Only sessions that never got a message (one that a cut emptied did) and were last updated before this timestamp. */
  emptyBefore?: string;
  /** Only those that runs of this chain asked for (the id of its original); left out: those that no run asked for. */
  spawnedBy?: string;
  limit: number;
  /** Skip so many; or start behind an entry, which need not be there any more. Not both. */
  offset?: number;
  before?: { updatedAt: string; id: string };
}

/** One page of a list. */
export interface SessionPage {
  sessions: Session[];
  /** All that match, whatever the page, as of the same moment; from kept counters where there is no `search`. */
  total: number;
}

/** A page of messages in ascending `seq`. Those that a cut hides are left out. */
export interface MessagePage {
  /** Only messages with a greater `seq`; the first `limit` of them. */
  after?: number;
  /** Only messages with a smaller `seq`; the last `limit` of them. With both, the range between, its first `limit`. */
  before?: number;
  limit?: number;
  /** `session` (default): those said in this session. `chain`: those of its whole chain, wherever they are stored. */
  scope?: "session" | "chain";
  /** Only messages that the cut of this snapshot hides. `""` hides nothing, so nothing comes. */
  hiddenBy?: string;
  /** Only results of the tool with this name; not `""`. */
  tool?: string;
}

/** What `runs` returns: matching runs by `startedAt`, newest first, ties by id, greatest first; at most `limit` of them. */
export interface RunQuery {
  /** The run with this id, if there is one. */
  id?: string;
  /** Any id of the chain. */
  sessionId?: string;
  /** As they are stored; an empty list finds none. */
  states?: readonly RunState[];
  /** The run with this key, if there is one; not `""`. */
  key?: string;
  limit: number;
  /** Start behind an entry, which need not be there any more. */
  before?: { startedAt: string; id: string };
}

/** A run, and whether anybody goes on with it. */
export interface StoredRun {
  run: RunRecord;
  /** Who holds the lease under which the run was last written; null when that was released, ran out or changed hands, or there was none. */
  holder: Holder | null;
}

/** What `asks` returns: matching asks by `createdAt`, newest first, ties by id, greatest first; at most `limit` of them. */
export interface AskQuery {
  /** The ask with this id, if there is one. */
  id?: string;
  /** Any id of the chain. */
  sessionId?: string;
  /** Only those that are stored as open. */
  open?: boolean;
  limit: number;
  /** Start behind an entry, which need not be there any more. */
  before?: { createdAt: string; id: string };
}

/** An answer to an ask. */
export interface AskAnswered {
  reply: AskReply;
  answeredBy: string;
  /** ISO 8601 UTC. */
  closedAt: string;
}

/** What the next run of a chain goes on from. */
export interface LeaseHead {
  original: Session;
  /** The session with the greatest index that no cut hides: the original itself when there is no other. */
  newest: Session;
  /** What the newest began with (its view), then what was said in it: all that a model needs, so `shown` may be left out. */
  messages: Message[];
  /**
   * The chain's runs that are stored as `queued`, `running` or `waiting`, newest first. To whoever holds the chain's lease
   * they are interrupted, but for those that wait in line and whose process lives.
   */
  unfinished: RunRecord[];
}

/** The head with what can be undone. */
export interface ChainHead extends LeaseHead {
  /** Snapshots of the chain that can be restored, oldest first. */
  snapshots: Snapshot[];
}

/** The right to write to a chain. */
export interface Lease {
  rootId: string;
  holder: Holder;
  /** Grows with every change of holder, also across releases, deletes and restarts; it may be counted for the whole store. */
  fence: number;
  /** ISO 8601 UTC; by the store's clock, where it has one. */
  expiresAt: string;
  /**
   * Fence of the chain's last lease before this one, which tells whoever held that one that nobody changed what was said
   * since. Left out where the store does not know it: always, after a delete, and after what was said was changed without a
   * lease, also by a follow-up, a cut or a restore.
   */
  previous?: number;
}

/** What is wanted with a lease. */
export interface LeaseOptions {
  /** Fence of the lease to be replaced, as it was told: whoever asks has found its holder dead. */
  replacing?: number;
  /**
   * Tell the chain's head too, as it is under the lease. With `messages: false` they may be left out, and with `known`
   * where the chain's last lease before this one had that fence: whoever asks has them.
   */
  head?: { messages: boolean; known?: number };
}

/** A lease that was had. */
export interface LeaseTaken extends Lease {
  /** If it was asked for, and the session exists. Without snapshots: a run needs none. */
  head?: LeaseHead;
}

/** That somebody else has the lease, and which: as of now, without `previous`. */
export interface LeaseHeld {
  heldBy: Lease;
}

/**
 * Text that a growing message gained: at the end of a part of it, or as its next part. A surrogate pair may be split
 * over two deltas, and is whole again in what is read.
 */
export interface PartDelta {
  messageId: string;
  /** The part's place in the message; that of the next one is how many there are. No place is ever left out. */
  part: number;
  type: "text" | "reasoning";
  text: string;
}

/** What a session begins with. */
export interface SessionStart {
  /** Its `lastSeq` is at least what is given, and at least that of `messages`. */
  session: Session;
  /** Said in it. */
  messages?: readonly Message[];
  /** Of a follow-up: the compacted view that it begins with. Apart from what is said in it, and none of the chain's messages. */
  view?: readonly Message[];
  /** The run that begins with it. */
  run?: RunRecord;
  /** Of the chain's lease, which may be taken before its original is there; null or left out for none. */
  fence?: number | null;
  /** As that of a change; left out: true. */
  sync?: boolean;
}

/** Fields that a change sets; left out ones stay. */
export interface SessionFields {
  title?: string;
  titled?: boolean;
  provider?: string;
  model?: string;
  reasoningEffort?: ReasoningEffort;
  mode?: SessionMode;
  leave?: readonly Leave[];
  cuts?: readonly number[];
  projectDir?: string;
  /** Ignored where the stored one is later; the rest of the change counts. */
  updatedAt?: string;
}

/**
 * One change, whole or not at all. `set` and `usage` reach the session and, of a follow-up, its chain's original too
 * (each with its own `updatedAt`) and no session between, so that lists of originals need no join.
 */
export interface SessionChange {
  /** Fence of the lease under which the change is made; null for a change that needs none: a title, an answer, an instruction. */
  fence: number | null;
  /** Whether it must be on the disk when the promise resolves (with the driver's full durability). */
  sync: boolean;
  set?: SessionFields;
  /** Added to the counters. */
  usage?: Usage;
  /**
   * New messages, said in this session, whose `lastSeq` becomes at least theirs, and no other's. A `seq` is unique in the
   * chain, those included that a cut hides, and so is a message's id. One with `finished: false` may grow: text comes
   * behind the parts that it began with.
   */
  add?: readonly Message[];
  /** Appended to growing messages of the chain, also to those that this change adds. */
  append?: readonly PartDelta[];
  /**
   * Final forms of growing messages of the chain, also of those that this change adds; they replace what had grown, and
   * nothing grows after them. The stored `sessionId` and `seq` stay, whatever these say.
   */
  finish?: readonly Message[];
  /**
   * Runs of the chain, put by id one after the other: a new one, or in place of the one that is there, whatever changed of
   * it. `sessionId` is stored as the original's id, whatever these say. One with the id of another chain's is refused,
   * with `RunKeyTakenError`.
   */
  runs?: readonly RunRecord[];
  /**
   * Asks of the chain, put by id one after the other, as `runs`; one that was answered meanwhile stays as it is.
   * `sessionId` is stored as the original's id, whatever these say. One with the id of another chain's is refused, with
   * `SessionExistsError`.
   */
  asks?: readonly Ask[];
  /**
   * Answers an ask of the chain that is stored as open. Of any number of answers at once the first counts, and none
   * counts for a withdrawn ask. The result says whether this one did.
   */
  answer?: AskAnswered & { askId: string };
  /** Leaves an instruction for a run of the chain. If there is one with its id already, that one stays as it is. */
  instruct?: Instruction;
  /** Ids of instructions of the chain to remove: a run followed them, or their sender takes them back. Unknown ids are ignored; the result lists the removed ones. */
  followed?: readonly string[];
  /**
   * Gives the lease of `fence` back with the change; `fence` is none then. A change of `release` alone also gives back
   * the lease of a session that was never created.
   */
  release?: boolean;
  /**
   * Undo the cut of this snapshot; applied after `cut`, so that one change swaps what was said since for what it hid.
   * What an earlier cut hid stays hidden under its own snapshot. The snapshot is gone then. Alone too it makes the
   * `lastSeq` of the session that is the newest then at least the chain's.
   */
  restore?: string;
  /**
   * Hide the chain's messages with a greater `seq` than `after`, and its sessions with a greater index than this one's,
   * under a new snapshot. One statement each, never a rewrite. Already hidden ones keep their snapshot, hidden seqs and
   * indexes stay taken. Applied before messages are added. The session that is the newest then has at least the `lastSeq`
   * of the chain, hidden messages included.
   */
  cut?: Snapshot;
}

/** Result of an answer to an ask. */
export interface AnswerResult {
  /** As it is stored after the change. */
  ask: Ask;
  /** Whether this answer is the one that counts. */
  counts: boolean;
}

/** Result of a change. */
export interface ChangeResult {
  /** As `SessionDriver.instructions` where the change gave the lease back; else empty. */
  instructions: Instruction[];
  /** Ids of the instructions that this change removed. Of any number of changes that remove one, one lists it. */
  consumedInstructions: string[];
  /** Result of `answer`; undefined if the chain has no such ask. */
  answer?: AnswerResult;
}

/** All of one session, as JSON. */
export interface SessionData {
  session: Session;
  /** Snapshot that hides it; `""` for none. */
  cut: string;
  /** The compacted view that a follow-up began with. */
  view: Message[];
  /** In `seq` order, each with the snapshot that hides it. */
  messages: { message: Message; cut: string }[];
}

/** All of a chain, as JSON: what `gantry sessions export` writes. */
export interface ChainData {
  /** By index, the original first; hidden ones too. */
  sessions: SessionData[];
  /** Oldest first. */
  snapshots: Snapshot[];
  /** Newest first, as they are stored. */
  runs: RunRecord[];
  /** Newest first, as they are stored. */
  asks: Ask[];
}

/**
 * Where sessions live. The kernel owns every rule; a driver only stores and finds.
 *
 * Any number of processes may share one store; no method ever fails because another process is writing, and what is
 * done is seen by all as soon as its promise has resolved. Calls made at once take effect one after the other, in some
 * order, and each sees all of those before it: one that is done before another begins comes first. A reader never sees
 * half of a change, and what one call tells is of one moment. What decides whether a change is made (a fence, a key, a
 * `seq`, that its session is there) is looked at in the same transaction as it is made.
 * Calls of one process that nobody awaited take effect in the order in which they were made, and a refused one touches
 * none beside it.
 *
 * A change whose answer was lost on the way (a connection that broke) is found to have been made, or is made then, and
 * never twice. Only where the store stays away is it told as failed although it may have been made.
 *
 * Ids are any text, told apart by case, whatever a file system makes of them; ids and aliases of sessions are one
 * namespace. Text comes back as it was given, NUL and control characters too; a lone surrogate may be replaced, and a
 * pair that was split over two appends is whole. What is given and what is told are the caller's own: changing them later
 * reaches no store.
 *
 * Nothing goes by itself but the time of a lease: keys stay until they are freed, instructions and asks until they are
 * followed, taken back or deleted with their chain. A driver that is opened again finds everything as it was.
 *
 * Every method but `open` and `close` rejects with `StoreError` when the store is not open, or cannot be read or
 * written; what it rejects with besides stands at each. The members with a question mark are for drivers that can do
 * better than the kernel does without them.
 */
export interface SessionDriver {
  readonly name: string;
  /** Ready the store. Rejects with `StoreError` when it cannot be used; a store of a newer version is left untouched. */
  open(): Promise<void>;
  /** Take nothing new, wait for what is under way, then let go of everything; other drivers on the store go on. Safe to call twice; it can be opened again. */
  close(): Promise<void>;
  /**
   * A session with what it begins with; whole or not at all. `SessionExistsError` when the id, the alias (over ids and
   * aliases, its own id too) or the chain's index (also of a cut session) is taken, with the id or the alias that is, of an
   * index the id that was to be made; `SeqTakenError` when a `seq` is, also within what is
   * given, `RunKeyTakenError`, `SessionNotFoundError` when a follow-up's original is gone. With a `fence`,
   * `LeaseLostError` when it is not the chain's current one.
   */
  create(start: SessionStart): Promise<void>;
  /** By id or by alias (`""` is none), as `head`; every other method takes ids alone. Undefined when there is none. */
  get(id: string): Promise<Session | undefined>;
  /**
   * What the next run goes on from, as of one moment, by any id of the chain or an alias; undefined for an unknown one.
   * With `messages: false` they may be left out, for a caller that has them.
   */
  head(id: string, wanted?: { messages: boolean }): Promise<ChainHead | undefined>;
  /**
   * Originals only, by `updatedAt`, newest first, ties by id, greatest first; by an index. Pages hold what did not move
   * meanwhile once, whatever is written.
   */
  list(query: SessionQuery): Promise<SessionPage>;
  /** In `seq` order, whatever the clock said; by an index. Empty for an unknown session. */
  messages(id: string, page?: MessagePage): Promise<Message[]>;
  /** By an index, also where only some states are asked for. Empty for an unknown session or id. */
  runs(query: RunQuery): Promise<StoredRun[]>;
  /** By an index. Empty for an unknown session or id. */
  asks(query: AskQuery): Promise<Ask[]>;
  /** Those of a chain (any id of it), in the order in which they came. Rejects with `SessionNotFoundError`: a run that looks learns by it that its session was deleted. */
  instructions(sessionId: string): Promise<Instruction[]>;
  /**
   * Change a session. Rejects with `SessionNotFoundError`, `SeqTakenError`, `RunKeyTakenError`, `PointNotFoundError` (no
   * such snapshot, no such growing message in the chain), or `LeaseLostError` when the fence is not the chain's current
   * one or was released; one that only ran out, and that nobody took, still counts. Nothing of a refused change is left.
   * Whoever leaves an instruction that a change with `release` does not tell finds that change done.
   */
  write(id: string, change: SessionChange): Promise<ChangeResult>;
  /**
   * Chains whole (given any of their ids), with messages, snapshots, runs, asks, instructions and leases, what a cut hides too. Unknown ids
   * are ignored, so it may be done again. All that was unique is free then. A later write of a holder rejects, also when
   * the id is used again; forks and other sessions made from it stay.
   */
  delete(ids: readonly string[]): Promise<void>;
  /**
   * Take or renew (same `holder.id`, same fence) the right to write to a chain: one holder at a time across processes and
   * hosts. A holder whose time ran out is replaced at once, and so is one whose lease has the fence `replacing`: whoever
   * asks has found it dead. Nobody else ever is, not a moment before its time, and of any that replace the same one
   * exactly one gets it. Else tells the lease of whoever has it. `rootId` may be any session's id of the chain, or the id of
   * a session that is not there yet: the lease is that of the chain which begins with it. The lease names the root. Renewing
   * moves `expiresAt` and nothing else.
   */
  lease(rootId: string, holder: Holder, ttlMs: number, options?: LeaseOptions): Promise<LeaseTaken | LeaseHeld>;
  /** All of the chain that a session (any id of the chain) belongs to, hidden parts included, as of one moment, growing messages as far as they have come; undefined for an unknown one. Leases and instructions are no part of it. */
  dump(id: string): Promise<ChainData | undefined>;
  /**
   * Take a chain in as `dump` gave it, of whichever driver; whole or not at all. What still grows in it goes on growing
   * behind what it had gained, and nobody holds its runs. Its original alone is listed and counted. `SessionExistsError` when one of its ids or aliases is taken, `RunKeyTakenError` when the
   * id or the key of one of its runs is.
   */
  load(chain: ChainData): Promise<void>;
  /**
   * Tells the processes that share the store of each other's changes. Usable while the store is open. Left out, the
   * kernel reads the store five times a second while it waits for another process.
   */
  readonly notifier?: Notifier;
  /**
   * Resolves when all that was stored until now is on the disk (with the driver's full durability). For a driver that can
   * tell apart that a change is done and that the disk has it: others have their turn meanwhile. Left out, a change with
   * `sync` waits for both.
   */
  synced?(): Promise<void>;
  /**
   * Free the keys of runs that began before a time (ISO 8601 UTC), and forget what those answered. Runs that go on keep
   * theirs. Left out, the kernel frees an old key when somebody uses it again, and answers stay until their chain is
   * deleted.
   */
  forgetKeys?(before: string): Promise<void>;
}
