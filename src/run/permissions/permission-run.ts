import type { Bus } from "../../base/bus.js";
import type { Conversation } from "../../conversation/conversation.js";
import type { Recorder } from "../../conversation/recorder.js";
import type { BusEvents } from "../../ports/bus-events.js";
import type { Logger } from "../../ports/logger.js";
import type { PermissionPolicy, PermissionRule } from "../../ports/permission-policy.js";
import type { RunInput } from "../../ports/run.js";
import type { SessionMode } from "../../ports/session.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { Unattended } from "../../ports/agent-options.js";
import type { SessionTail } from "../../watch/session-tail.js";
import type { RunClock } from "../budget/limits.js";
import type { Inbox } from "../queue/inbox.js";

export interface PermissionSettings {
  /** Evaluated in order, before the rules. */
  readonly policies: readonly PermissionPolicy[];
  readonly rules: readonly PermissionRule[];
  readonly unattended: { readonly policy: Unattended; readonly timeoutMs: number };
}

/** The permission settings of a run, and the client that started it. */
export interface RunPermissions extends PermissionSettings {
  readonly ask: RunInput["ask"];
  /** Whether tools that need permission ask through `ask` even if the session's mode is `auto`. */
  readonly alwaysAsk: boolean;
  /** Name of the client that handles `ask`. */
  readonly clientName: string;
  /** Ids of the run's open asks. In a subagent's run: ids of the calls whose asks are stored with the parent run. */
  readonly pendingAskIds: Set<string>;
}

/** The parts of a run that permission checks and requests read. */
export interface PermissionRun {
  readonly info: {
    readonly id: string;
    /** Id of the chain's first session. */
    readonly sessionId: string;
    /** Absolute path of the folder where the run's tools work. */
    readonly projectDir: string;
    /** Set for subagent runs only. */
    readonly parentCall: ParentCall | undefined;
  };
  readonly session: {
    /** The messages so far. For a chain, the messages of its newest session. */
    readonly conversation: Conversation;
    readonly store: SessionDriver;
    /** Writes to the store under the lease. */
    readonly recorder: Recorder;
  };
  readonly channels: {
    readonly bus: Bus<BusEvents>;
    /** Instructions to the run from any process: cancel and steering. */
    readonly inbox: Inbox;
    /** Publishes stored events to watchers in this process. */
    readonly tail: SessionTail;
    /** Adds the run's id to each log line. */
    readonly logger: Logger;
  };
  /** `clock` ends the run when its time limit is reached. Undefined: no limit. */
  readonly budget: { readonly clock: RunClock | undefined };
  readonly permissions: RunPermissions;
  /** Aborted to end the run. */
  readonly signal: AbortSignal;
}

/** The tool call that started a subagent's run. */
export interface ParentCall {
  readonly parentRun: PermissionRun;
  /** Id of the parent's tool call. */
  readonly callId: string;
  readonly title: string;
  /** Mode of the parent's session when the call began. */
  readonly mode: SessionMode;
}
