import type { RunResult } from "./run.js";
import type { Session } from "./session.js";
import type { Usage } from "./usage.js";

/** Events on the kernel's bus. Listeners are told after the fact; none can slow or fail a run. */
export interface BusEvents {
  "session.created": { session: Session };
  "session.resume": { sessionId: string; rootId: string };
  "session.updated": { sessionId: string; fields: readonly string[]; session: Session };
  "session.compacted": { rootId: string; from: string; to: string; strategy: string };
  "session.forked": { from: string; to: string };
  "session.reverted": { sessionId: string; snapshotId: string };
  "session.deleted": { ids: readonly string[] };
  "run.started": { sessionId: string; provider: string; model: string };
  "run.finished": { sessionId: string; result: RunResult };
  "run.failed": { sessionId: string; error: Error };
  /** `title`: of no run, so that it counts neither to one nor to its session. */
  "model.called": {
    sessionId: string;
    provider: string;
    model: string;
    usage: Usage;
    purpose: "answer" | "summary" | "title";
  };
  "model.retried": {
    sessionId: string;
    provider: string;
    model: string;
    attempt: number;
    delayMs: number;
    error: Error;
    /** The stored message that broke off; `""` when nothing of the answer was said. */
    messageId: string;
  };
  "tool.started": { sessionId: string; callId: string; name: string };
  "tool.finished": { sessionId: string; callId: string; name: string; failed: boolean };
}

/** Name of an event on the bus. */
export type BusEvent = keyof BusEvents;

/** Hears one sort of event; what it throws is logged. */
export type BusListener<E extends BusEvent> = (event: BusEvents[E]) => void;
