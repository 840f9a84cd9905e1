import type { Bus } from "../../base/bus.js";
import type { Conversation } from "../../conversation/conversation.js";
import type { Recorder } from "../../conversation/recorder.js";
import type { BusEvents } from "../../ports/bus-events.js";
import type { Hooks } from "../../ports/hooks.js";
import type { Logger } from "../../ports/logger.js";
import type { PermissionPolicy, PermissionRule } from "../../ports/permission-policy.js";
import type { RunInput } from "../../ports/run.js";
import type { SessionMode } from "../../ports/session.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { Unattended } from "../../ports/agent-options.js";
import type { SessionTail } from "../../watch/session-tail.js";
import type { RunClock } from "../budget/run-clock.js";
import type { Inbox } from "../queue/inbox.js";

/** The fields of a run for permission checks and requests. `RunContext` describes each. */
export interface PermissionRun {
  readonly agent: {
    readonly permissions: readonly PermissionPolicy[];
    readonly rules: readonly PermissionRule[];
    readonly unattended: { readonly policy: Unattended; readonly timeoutMs: number };
  };
  readonly id: string;
  readonly sessionId: string;
  /** Set for subagent runs only. */
  readonly parentCall: ParentCall | undefined;
  readonly projectDir: string;
  readonly conversation: Conversation;
  readonly store: SessionDriver;
  readonly recorder: Recorder;
  readonly bus: Bus<BusEvents>;
  readonly inbox: Inbox;
  readonly tail: SessionTail;
  readonly hooks: Hooks;
  readonly clock: RunClock | undefined;
  readonly logger: Logger;
  readonly ask: RunInput["ask"];
  readonly alwaysAsk: boolean;
  readonly clientName: string;
  readonly pendingAskIds: Set<string>;
  readonly signal: AbortSignal;
}

/** The tool call that started a subagent's run. */
export interface ParentCall {
  readonly parentRun: PermissionRun;
  readonly callId: string;
  /** Title of the subagent for display. */
  readonly title: string;
  /** Mode of the parent's session when the call began. */
  readonly mode: SessionMode;
}
