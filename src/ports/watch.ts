import type { Ask } from "./ask.js";
import type { ProcessState } from "./background.js";
import type { Message } from "./message.js";
import type { RunRecord } from "./run.js";
import type { Session } from "./session.js";

/** A step of the agent's plan, from its todo list. */
export interface PlanEntry {
  content: string;
  status: "pending" | "in_progress" | "completed";
  /** As the model sent it, for instance `high`. Undefined if it sent none. */
  priority?: string | undefined;
}

/** Current state of a session. The state is sent again after each change. Cursors do not count state events. */
export interface SessionState {
  /** The chain's first session. */
  session: Session;
  /** The chain's newest run in its effective state: `interrupted` if its process is dead. Null before the first run. */
  run: RunRecord | null;
  /** Open asks, oldest first. */
  asks: readonly Ask[];
  /** The todo list as last set by the tools; empty without a todo list. */
  plan: readonly PlanEntry[];
  /**
   * Background commands of this process and detached ones: the running commands and the most recently ended. Undefined
   * if there are none.
   */
  processes?: readonly ProcessState[];
  /** Whether the run is active in another process. Only that process sends the output of its running tools. */
  runningElsewhere: boolean;
}

/**
 * Events for watchers of a session. A reader that applies all of them in order has the session's messages, also after
 * it resumed from a cursor. Except `tool_progress`, only stored data is sent: a watcher never receives text that is
 * lost.
 */
export type WatchEvent =
  /** Sent as the first event, and after each change. */
  | { type: "state"; state: SessionState }
  /** The first event of a reader that started with `afterSeq`. Its cursor resumes at that message. */
  | { type: "state"; cursor: string; state: SessionState }
  /** A message, which replaces an earlier message with the same `seq`. With `finished: false` it may grow. */
  | { type: "message"; cursor: string; message: Message }
  /** Text or reasoning added to a growing message, after the message's earlier content of the same kind. */
  | { type: "delta"; cursor: string; messageId: string; seq: number; kind: "text" | "reasoning"; text: string }
  /** A growing message is complete. The texts of `message` were already sent; its other parts are new. */
  | { type: "message_end"; cursor: string; message: Message }
  /** All messages with a `seq` greater than `after` are invalid: a revert hid them, or a restore replaced them. */
  | { type: "rewind"; cursor: string; after: number }
  /**
   * Output that a running tool printed since the last such event. Sent only by the process that runs the tool, and not
   * stored.
   */
  | { type: "tool_progress"; callId: string; text: string }
  /** The session was deleted; the last event. */
  | { type: "deleted" };

/** Start and end of a watch. */
export interface WatchOptions {
  /**
   * Cursor of the last event that the reader has. Undefined or `""`: from the beginning. A cursor past the end is
   * rejected.
   */
  after?: string | undefined;
  /**
   * Start after the message with this `seq`, for a reader that has the messages up to it; ignored with a cursor. If
   * those messages are no longer valid, the reader gets a `rewind`. A message that still grows is sent again, complete.
   */
  afterSeq?: number | undefined;
  /**
   * Cursor of a reader that reconnects automatically. A cursor past the end starts anew, with a `rewind` of all
   * messages. Ignored with `after`.
   */
  lastSeen?: string | undefined;
  /** Whether to wait for further events. `false`: the watch ends after the stored ones. Default true. */
  follow?: boolean | undefined;
  /**
   * Whether this watcher answers asks. `true`: while it watches, asks of all sessions wait for it. A function is called
   * for each ask and counts for this session only. Default false.
   */
  canAnswer?: boolean | (() => boolean) | undefined;
  /** Ends the watch without an error. */
  signal?: AbortSignal | undefined;
}
