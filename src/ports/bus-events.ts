import type { Ask } from "./ask.js";
import type { RunResult } from "./run.js";
import type { Session } from "./session.js";
import type { Usage } from "./usage.js";

/** Events on the kernel's bus. Listeners are told after the fact; none can slow or fail a run. */
export interface BusEvents {
  /** `runId`: of the run that began it; left out of a session that was made without one. */
  "session.created": { session: Session; runId?: string };
  "session.resume": { runId: string; sessionId: string; rootId: string };
  "session.updated": { sessionId: string; fields: readonly string[]; session: Session };
  "session.compacted": { runId: string; rootId: string; from: string; to: string; strategy: string };
  "session.forked": { from: string; to: string };
  "session.reverted": { sessionId: string; snapshotId: string };
  "session.deleted": { ids: readonly string[] };
  /** Ended by `run.finished` or `run.failed`, one of them, once. */
  "run.started": { runId: string; sessionId: string; provider: string; model: string };
  "run.finished": { runId: string; sessionId: string; result: RunResult };
  /** Also of one that was cancelled. */
  "run.failed": { runId: string; sessionId: string; error: Error };
  /** Ended by `model.called` or `model.failed`, one of them, once; what is tried again meanwhile is one call. */
  "model.started": ModelCallNames;
  "model.called": ModelCallNames & ModelCallTimes & { usage: Usage };
  "model.failed": ModelCallNames & ModelCallTimes & { error: Error };
  "model.retried": {
    runId: string;
    sessionId: string;
    provider: string;
    model: string;
    attempt: number;
    delayMs: number;
    error: Error;
    /** The stored message that broke off; `""` when nothing of the answer was said. */
    messageId: string;
  };
  /** Ended by `ask.closed`, once. */
  "ask.opened": { runId: string; sessionId: string; ask: Ask };
  /** Answered, or withdrawn. */
  "ask.closed": { runId: string; sessionId: string; ask: Ask };
  /** Tools of a source could not be had for a run, which goes on without them. */
  "tools.failed": { runId: string; sessionId: string; source: string; error: Error };
  /** Ended by `tool.finished`, once. */
  "tool.started": { runId: string; sessionId: string; callId: string; name: string };
  "tool.finished": { runId: string; sessionId: string; callId: string; name: string; failed: boolean };
}

/** What a model is asked for. A `title` is made beside its run and may outlive it: it counts neither to the run nor to its session. */
export type ModelPurpose = "answer" | "summary" | "title";

/** Which call of a model an event is about. */
export interface ModelCallNames {
  /** The run that asks; of a title the one that brought it about. */
  runId: string;
  sessionId: string;
  /** The same in all events of one call. */
  callId: string;
  provider: string;
  model: string;
  purpose: ModelPurpose;
}

/** How long a call took, in whole ms, waits between its attempts included. */
export interface ModelCallTimes {
  durationMs: number;
  /** From the call's begin to the first piece of an answer, of whichever attempt; undefined when none came. */
  firstTokenMs: number | undefined;
}
