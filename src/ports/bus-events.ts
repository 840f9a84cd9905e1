import type { Ask } from "./ask.js";
import type { AgentEvent } from "./events.js";
import type { Part } from "./message.js";
import type { FinishReason } from "./model-provider.js";
import type { RunRecord, RunResult } from "./run.js";
import type { Session } from "./session.js";
import type { Usage } from "./usage.js";

/** Events on the kernel's bus. Listeners are called after the reported change; a listener cannot slow or fail a run. */
export interface BusEvents {
  /** `runId`: the run that created the session. Absent if the session was created without a run. */
  "session.created": { session: Session; runId?: string };
  "session.resume": { runId: string; sessionId: string; rootId: string };
  "session.updated": { sessionId: string; fields: readonly string[]; session: Session };
  /** `from`: id of the compacted session. `to`: id of its follow-up. */
  "session.compacted": { runId: string; rootId: string; from: string; to: string; strategy: string };
  /** `from`: id of the chain's first session. `to`: id of the new session. */
  "session.forked": { from: string; to: string };
  "session.reverted": { sessionId: string; snapshotId: string };
  /** An undo, a redo or a revert changed files. Absolute paths. */
  "session.files_restored": { sessionId: string; paths: readonly string[] };
  "session.deleted": { ids: readonly string[] };
  /** Followed exactly once by either `run.finished` or `run.failed`. */
  "run.started": {
    runId: string;
    sessionId: string;
    provider: string;
    model: string;
    /** The tool call that started a subagent's run. Undefined for all other runs. */
    parent: { runId: string; callId: string } | undefined;
    /** `RunInput.trace`. */
    trace: string | undefined;
  };
  "run.finished": { runId: string; sessionId: string; result: RunResult; run: RunRecord };
  /** Emitted for a cancelled run too. `run`: the record, even if it could not be stored. */
  "run.failed": { runId: string; sessionId: string; error: Error; run: RunRecord };
  /** Followed exactly once by either `model.called` or `model.failed`. Retries belong to the same call. */
  "model.started": ModelCallNames;
  "model.called": ModelCallNames &
    ModelCallTimes & {
      usage: Usage;
      finishReason: FinishReason;
      /** The answer. */
      parts: readonly Part[];
    };
  "model.failed": ModelCallNames & ModelCallTimes & { error: Error };
  "model.retried": Omit<Extract<AgentEvent, { type: "retry" }>, "type"> & {
    runId: string;
    sessionId: string;
    provider: string;
    model: string;
  };
  /** Followed exactly once by `ask.closed`. */
  "ask.opened": { runId: string; sessionId: string; ask: Ask };
  "ask.closed": { runId: string; sessionId: string; ask: Ask };
  /** Tools of a source are unavailable for a run. The run continues without them. */
  "tools.failed": { runId: string; sessionId: string; source: string; error: Error };
  /** Followed exactly once by `tool.finished`. */
  "tool.started": ToolCallNames & {
    /** JSON, as the model sent it. */
    arguments: string;
  };
  "tool.finished": ToolCallNames & {
    failed: boolean;
    /** Whether the call did not run because permission was denied. */
    refused: boolean;
    /** Text of the result. */
    output: string;
  };
}

/**
 * Purpose of a model call. A `title` call runs in parallel with its run and may end later. The usage of a title counts
 * neither for the run nor for the session. A `search` call searches the web for a tool call.
 */
export type ModelPurpose = "answer" | "search" | "summary" | "title";

/** Identifies the model call of an event. */
export interface ModelCallNames {
  /** The run that makes the call. For a `title`, the run that caused it. */
  runId: string;
  sessionId: string;
  /** The same in all events of one call. */
  callId: string;
  provider: string;
  model: string;
  purpose: ModelPurpose;
}

/** Identifies the tool call of an event. */
export interface ToolCallNames {
  runId: string;
  sessionId: string;
  callId: string;
  /** Name as the model sent it. */
  name: string;
  /** Whether the run has a tool of this name. */
  isOffered: boolean;
  /** `ToolSpec.origin`: the source of the tool. Undefined for the agent's own tools. */
  origin: string | undefined;
}

/** Duration of a model call in whole ms, including the delays between attempts. */
export interface ModelCallTimes {
  durationMs: number;
  /**
   * Time from the start of the call to the first chunk of an answer, over all attempts, in whole ms. Undefined if no
   * chunk arrived.
   */
  firstTokenMs: number | undefined;
}
