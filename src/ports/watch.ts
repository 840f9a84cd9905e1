import type { Ask } from "./ask.js";
import type { ProcessState } from "./background.js";
import type { Message } from "./message.js";
import type { RunRecord } from "./run.js";
import type { Session } from "./session.js";

/** A step of what an agent is about to do, as its todo list says. */
export interface PlanEntry {
  content: string;
  status: "pending" | "in_progress" | "completed";
}

/** How a session stands. It is told anew whenever it changes, and is no part of what a cursor counts. */
export interface SessionState {
  /** The chain's first session. */
  session: Session;
  /** The chain's newest run, as it is: `interrupted` when its process is dead. Null before the first. */
  run: RunRecord | null;
  /** Those that are open, oldest first. */
  asks: readonly Ask[];
  /** The todo list, as the tools left it last; empty without one. */
  plan: readonly PlanEntry[];
  /** Commands in the background, of this process and those that were kept: those that run, and the last that ended. Left out where there is none. */
  processes?: readonly ProcessState[];
  /** Whether the run goes on in another process, which alone tells what its tools print. */
  elsewhere: boolean;
}

/**
 * What a session says to whoever watches it. Applied in order to an empty page they make the session's messages, from
 * whichever cursor they go on. Only what is stored is told: what was seen is never lost.
 */
export type WatchEvent =
  /** The first event, and again when it changes. */
  | { type: "state"; state: SessionState }
  /** The first event of a reader that began `behind` a message: it may come back to there. */
  | { type: "state"; cursor: string; state: SessionState }
  /** A message, in place of one with its `seq`. With `finished: false` it may grow. */
  | { type: "message"; cursor: string; message: Message }
  /** Text or reasoning that a growing message gained, behind all that it has of the same kind. */
  | { type: "delta"; cursor: string; messageId: string; seq: number; kind: "text" | "reasoning"; text: string }
  /** A message that grew is whole: its texts are those that were told, the rest is new. */
  | { type: "message_end"; cursor: string; message: Message }
  /** All messages with a greater `seq` are void: a revert hid them, or a restore puts others in their place. */
  | { type: "cut"; cursor: string; after: number }
  /** What a running tool printed since this was told last; of the process that runs it alone, and kept nowhere. */
  | { type: "tool_progress"; callId: string; text: string }
  /** The session was deleted; the last event. */
  | { type: "deleted" };

/** From where a session is watched, and how far. */
export interface WatchOptions {
  /** Cursor of the last event that the reader has; left out or `""`: from the beginning. One past the end is refused. */
  after?: string | undefined;
  /**
   * Only what was said behind the message with this `seq`, for a reader that has the messages up to it; ignored beside a
   * cursor. Where that is no longer so, the reader is told by a `cut`; one that grows is told again, whole.
   */
  behind?: number | undefined;
  /** The same of a reader that comes back by itself: one past the end begins anew, with a cut of all that it has. Ignored beside `after`. */
  lastSeen?: string | undefined;
  /** Whether to wait for more; `false` ends when all was told. Default true. */
  follow?: boolean | undefined;
  /**
   * Whether this watcher answers questions of runs. `true`: while it watches, questions of every session wait for it. A
   * function is called for each question, and answers for this session alone. Default false.
   */
  answers?: boolean | (() => boolean) | undefined;
  /** Ends it, without an error. */
  signal?: AbortSignal | undefined;
}
