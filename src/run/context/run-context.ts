import type { Bus } from "../../base/bus.js";
import type { TaskSet } from "../../base/task-set.js";
import type { Compaction } from "../../compaction/compaction.js";
import type { Conversation } from "../../conversation/conversation.js";
import type { Recorder } from "../../conversation/recorder.js";
import type { Models } from "../../models/models.js";
import type { BusEvents } from "../../ports/bus-events.js";
import type { Logger } from "../../ports/logger.js";
import type { Model, ModelPrices, ModelProvider, ReasoningEffort } from "../../ports/model-provider.js";
import type { Run, RunInput } from "../../ports/run.js";
import type { SessionMode } from "../../ports/session.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { FileHistory } from "../../ports/file-history.js";
import type { Hooks } from "../../ports/hooks.js";
import type { PermissionPolicy, PermissionRule } from "../../ports/permission-policy.js";
import type { JsonSchema, Tool } from "../../ports/tool.js";
import type { McpServerFactory } from "../../ports/mcp-server.js";
import type { Project } from "../../project/project.js";
import type { Skill } from "../../ports/skill.js";
import type { PromptUse, Unattended } from "../../ports/agent-options.js";
import type { ActiveLease } from "../../sessions/lease.js";
import type { EventBuffer } from "./event-buffer.js";
import type { AgentTools } from "../tools/agent-tools.js";
import type { LiveSessions } from "../../watch/live-sessions.js";
import type { CommandOptions } from "../prompt/slash-commands.js";
import type { SessionTail } from "../../watch/session-tail.js";
import type { Inbox } from "../queue/inbox.js";
import type { ConversationCache } from "./conversation-cache.js";
import type { RunBudget } from "../budget/run-budget.js";
import type { RunClock } from "../budget/run-clock.js";
import type { RunLimits } from "../budget/limits.js";
import type { RunLimiter } from "../budget/run-limiter.js";
import type { StructuredOutput } from "./structured-output.js";
import type { ToolSources } from "../tools/tool-sources.js";
import type { ToolStateCache } from "../tools/tool-state.js";

/** The tool call of a parent run that spawned a subagent, with the options of the subagent's run. */
export interface SubagentCall {
  readonly parentRun: RunContext;
  /** Id of the parent's tool call. */
  readonly callId: string;
  /** Title of the subagent for display. */
  readonly title: string;
  /** The parent's mode when the subagent was spawned. */
  readonly mode: SessionMode;
  readonly maxIterations: number;
  /** Pending writes that add the subagent's usage to the parent run. */
  readonly usageTasks: TaskSet;
  /** Records changed files in the state of the parent's tool call. */
  readonly recordChanges: (paths: readonly string[]) => void;
}

/** The services that all runs of an agent share. Created once, with the agent. */
export interface AgentServices {
  /** Reported with streamed tokens. */
  readonly name: string;
  /** The store; opened at the first use. */
  readonly store: () => Promise<SessionDriver>;
  readonly models: Models;
  readonly bus: Bus<BusEvents>;
  readonly logger: Logger;
  readonly tools: AgentTools;
  readonly sources: ToolSources;
  readonly mcpServerFactory: McpServerFactory | undefined;
  /** Stores earlier contents of files that tools change. Undefined: contents are not stored. */
  readonly fileHistory: FileHistory | undefined;
  readonly commands: CommandOptions;
  /** Evaluated in order, before the rules. */
  readonly permissions: readonly PermissionPolicy[];
  readonly rules: readonly PermissionRule[];
  /** Default for new sessions. */
  readonly mode: SessionMode;
  readonly unattended: { readonly policy: Unattended; readonly timeoutMs: number };
  readonly hooks: Hooks;
  readonly compaction: Compaction;
  /** Addition to the system prompt of runs whose input has none, and its use. */
  readonly prompt: { readonly text: string; readonly use: PromptUse };
  /** Reads the instructions in the folders of runs. */
  readonly project: Project;
  readonly limits: RunLimits;
  /** Default for new sessions, as an absolute path. */
  readonly projectDir: string;
  readonly reasoningEffort: ReasoningEffort;
  readonly limiter: RunLimiter;
  readonly toolStates: ToolStateCache;
  readonly conversationCache: ConversationCache;
  /** The sessions that clients watch. */
  readonly liveSessions: () => LiveSessions;
  /** Starts the run of a subagent. Rejects like `Agent.run`. */
  readonly spawn: (input: RunInput, call: SubagentCall) => Promise<Run>;
  /** Ids of sessions whose title is being generated. */
  readonly sessionsBeingTitled: Set<string>;
  /** Aborted when the agent closes. */
  readonly closeSignal: AbortSignal;
  /** Starts, runs and background work. The agent waits for them before it closes its store. */
  readonly tasks: TaskSet;
  /** Tools that did not stop at once after a cancel. */
  readonly unsettledTools: TaskSet;
}

/**
 * A run: its properties and the services that it uses. Created once the run holds its session's lease. The loop, the
 * context window and the tool calls read it; its fields are never replaced.
 */
export interface RunContext {
  readonly agent: AgentServices;
  readonly id: string;
  /** Id of the chain's first session. */
  readonly sessionId: string;
  /** Set for subagent runs only. */
  readonly parentCall: SubagentCall | undefined;
  /** Id of this run's agent in streamed tokens. */
  readonly agentId: string;
  readonly provider: ModelProvider;
  readonly model: Model;
  readonly effort: ReasoningEffort;
  readonly systemPrompt: string;
  /** Text that the options or the input added to the system prompt. */
  readonly extraPrompt: string;
  /** Sorted by name. */
  readonly tools: readonly Tool[];
  /** The skills listed in the model's prompt. */
  readonly skills: readonly Skill[];
  readonly hooks: Hooks;
  readonly limits: RunLimits;
  /** Budget of the run's model calls. Undefined: no limit. */
  readonly allowance: RunBudget | undefined;
  /** For a run that only compacts its session: what to keep; may be `""`. Undefined for all other runs. */
  readonly compactionInstruction: string | undefined;
  /** Ends the run when its time limit is reached. Undefined: no limit. */
  readonly clock: RunClock | undefined;
  readonly unknownPrice: ModelPrices | undefined;
  /** Required form of the final answer. Undefined: free text. */
  readonly structuredOutput: StructuredOutput | undefined;
  readonly outputSchema: JsonSchema | undefined;
  /** Absolute path of the folder where the run's tools work. */
  readonly projectDir: string;
  /** Additional folders that the tools may use. */
  readonly folders: readonly string[];
  /** The messages so far. For a chain, the messages of its newest session. */
  readonly conversation: Conversation;
  /** State that tools store for the session. */
  readonly state: Map<string, unknown>;
  readonly store: SessionDriver;
  readonly lease: ActiveLease;
  /** Writes to the store under the lease. */
  readonly recorder: Recorder;
  readonly bus: Bus<BusEvents>;
  /** Instructions to the run from any process: cancel and steering. */
  readonly inbox: Inbox;
  /** Publishes stored events to watchers in this process. */
  readonly tail: SessionTail;
  /** Adds the run's id to each log line. */
  readonly logger: Logger;
  /** Events for the reader of the run. */
  readonly events: EventBuffer;
  readonly ask: RunInput["ask"];
  /** Whether tools that need permission ask through `ask` even if the session's mode is `auto`. */
  readonly alwaysAsk: boolean;
  /** Name of the client that handles `ask`. */
  readonly clientName: string;
  /** Ids of the run's open asks. In a subagent's run: ids of the calls whose asks are stored with the parent run. */
  readonly pendingAskIds: Set<string>;
  /**
   * Ends the run. Aborted by the caller and when the agent closes. Also aborted when the session is deleted, the lease
   * is lost or a write fails.
   */
  readonly cancel: AbortController;
  /** The signal of `cancel`, for functions that only listen. */
  readonly signal: AbortSignal;
  /** Releases the run's slot, tools and signal listeners. Called once, when the run has ended. */
  readonly release: () => void;
}
