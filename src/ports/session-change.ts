import type { Ask, AskReply } from "./ask.js";
import type { Message } from "./message.js";
import type { ReasoningEffort } from "./model-provider.js";
import type { Instruction, RunRecord } from "./run.js";
import type { PermissionGrant, Session, SessionMode, Snapshot } from "./session.js";
import type { Usage } from "./usage.js";

/** An answer to an ask. */
export interface AskResolution {
  reply: AskReply;
  answeredBy: string;
  closedAt: string;
}

/**
 * Text added to a growing message, at the end of one of its parts or as its next part. A surrogate pair may be split
 * over two deltas; readers get it joined.
 */
export interface PartDelta {
  messageId: string;
  /** Index of the part in the message. A new part has the current number of parts as its index. No index is skipped. */
  part: number;
  type: "text" | "reasoning";
  text: string;
}

/** A new session with its initial data. */
export interface SessionStart {
  /** The stored `lastSeq` is at least the given `lastSeq`, and at least the greatest `seq` of `messages`. */
  session: Session;
  /** Messages of the session. */
  messages?: readonly Message[];
  /**
   * For a follow-up: the compacted view with which it starts. The view is separate from the session's messages and
   * contains no messages of the chain.
   */
  view?: readonly Message[];
  /** The run that creates the session. */
  run?: RunRecord;
  /** Fence of the chain's lease, which may be taken before the original exists. Null or undefined for none. */
  fence?: number | null;
  /** Same as `SessionChange.sync`; default: true. */
  sync?: boolean;
}

/** Fields that a change sets. Undefined fields stay unchanged. */
export interface SessionFields {
  title?: string;
  hasFinalTitle?: boolean;
  provider?: string;
  model?: string;
  reasoningEffort?: ReasoningEffort;
  mode?: SessionMode;
  permissionGrants?: readonly PermissionGrant[];
  rewinds?: readonly number[];
  projectDir?: string;
  archived?: boolean;
  shared?: boolean;
  /** Ignored if the stored value is later; the other fields of the change apply. */
  updatedAt?: string;
}

/**
 * An atomic change. `set` and `usage` apply to the session. For a follow-up they also apply to its chain's original,
 * each with its own `updatedAt`, but to no session between. Lists of originals therefore need no join.
 */
export interface SessionChange {
  /**
   * Fence of the lease under which the change is made. Null for a change that needs none: a title, an answer, an
   * instruction.
   */
  fence: number | null;
  /** Whether the change must be on disk when the promise resolves (with the driver's full durability). */
  sync: boolean;
  set?: SessionFields;
  /** Added to the counters. */
  usage?: Usage;
  /**
   * New messages of this session. The session's `lastSeq` becomes at least their greatest `seq`; other sessions keep
   * their `lastSeq`. A `seq` and a
   * message id are unique in the chain, including hidden messages. A message with `finished: false` may grow: text
   * follows its initial parts.
   */
  add?: readonly Message[];
  /** Text for growing messages of the chain, including messages that this change adds. */
  append?: readonly PartDelta[];
  /**
   * Final forms of growing messages of the chain, including messages that this change adds. The final forms replace the
   * grown text and cannot grow further. The stored `sessionId` and `seq` stay, even if the given messages have others.
   */
  finish?: readonly Message[];
  /**
   * Runs of the chain, stored in order: each is inserted, or replaces the run with its id. The stored `sessionId` is
   * always the original's id. An id used by another chain is rejected with `RunKeyTakenError`.
   */
  runs?: readonly RunRecord[];
  /**
   * Asks of the chain, stored in order like `runs`; an ask that was answered meanwhile stays unchanged. The stored
   * `sessionId` is always the original's id. An id used by another chain is rejected with `SessionExistsError`.
   */
  asks?: readonly Ask[];
  /**
   * Answers an ask of the chain that is stored as open. The first of several simultaneous answers counts; none counts
   * for a withdrawn ask. The result states whether this answer counts.
   */
  answer?: AskResolution & { askId: string };
  /** Stores an instruction for a run of the chain. An existing instruction with its id stays unchanged. */
  instruct?: Instruction;
  /**
   * Ids of instructions of the chain to remove, because a run consumed them or their sender withdraws them. Unknown ids
   * are ignored; the result lists the removed ids.
   */
  consumedInstructions?: readonly string[];
  /**
   * Releases the lease of `fence` with the change; afterwards that fence is invalid. A change with only `release` also
   * releases the lease of a session that was never created.
   */
  release?: boolean;
  /**
   * Undoes the revert of this snapshot and removes the snapshot. Applied after `revert`, so that one change can swap
   * later messages for the hidden ones. Messages hidden by an earlier revert stay hidden under their own snapshot. The
   * `lastSeq` of the then newest session becomes at least the chain's, also without `revert`.
   */
  restore?: string;
  /**
   * Hides the chain's messages with a `seq` greater than `after`, and its sessions with an index greater than this
   * session's, under a new snapshot.
   *
   * - The driver marks the messages and the sessions, with one statement each; it rewrites none of them.
   * - Already hidden items keep their snapshot. Hidden seqs and indexes stay in use.
   * - Applied before messages are added.
   * - The `lastSeq` of the then newest session is at least the chain's, including hidden messages.
   */
  revert?: Snapshot;
}

/** Result of an answer to an ask. */
export interface AnswerResult {
  /** The stored ask after the change. */
  ask: Ask;
  /** Whether this answer counts. */
  isAccepted: boolean;
}

/** Result of a change. */
export interface ChangeResult {
  /** Instructions as returned by `SessionDriver.instructions` if the change released the lease; otherwise empty. */
  instructions: Instruction[];
  /**
   * Ids of the instructions that this change removed. If several changes remove the same instruction, exactly one lists
   * it.
   */
  consumedInstructions: string[];
  /** Result of `answer`. Undefined if the chain has no such ask. */
  answer?: AnswerResult;
}
