import type { Bus } from "../../base/bus.js";
import type { TaskSet } from "../../base/task-set.js";
import type { Compaction } from "../../compaction/compaction.js";
import type { Models } from "../../models/models.js";
import type { BusEvents } from "../../ports/bus-events.js";
import type { FileHistory } from "../../ports/file-history.js";
import type { Worktrees } from "../../ports/worktrees.js";
import type { Hooks } from "../../ports/hooks.js";
import type { Logger } from "../../ports/logger.js";
import type { McpServerFactory } from "../../ports/mcp-server.js";
import type { ReasoningEffort } from "../../ports/model-provider.js";
import type { PromptUse } from "../../ports/agent-options.js";
import type { Run, RunInput } from "../../ports/run.js";
import type { SessionMode } from "../../ports/session.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { Project } from "../../project/project.js";
import type { BackgroundTasks } from "../../sessions/lease.js";
import type { LiveSessions } from "../../watch/live-sessions.js";
import type { RunBudget } from "../budget/run-budget.js";
import type { RunLimiter, RunLimits } from "../budget/limits.js";
import type { ParentCall, PermissionRun, PermissionSettings } from "../permissions/permission-run.js";
import type { CommandOptions } from "../prompt/slash-commands.js";
import type { AgentTools, SourceInstructions, ToolSources } from "../tools/tool-sources.js";
import type { ToolStateCache } from "../tools/tool-state.js";
import type { ConversationCache } from "./conversation-cache.js";
import type { PromptReports } from "./prompt-reports.js";

/** The services that all runs of an agent share, in groups. Created once, with the agent. */
export interface AgentServices {
  /** Reported with streamed tokens. */
  readonly name: string;
  /** The store; opened at the first use. */
  readonly store: () => Promise<SessionDriver>;
  readonly models: Models;
  /** Reads the instructions in the folders of runs. */
  readonly project: Project;
  readonly compaction: Compaction;
  readonly commands: CommandOptions;
  readonly defaults: {
    /** For new sessions, as an absolute path. */
    readonly projectDir: string;
    readonly mode: SessionMode;
    readonly reasoningEffort: ReasoningEffort;
    /** Addition to the system prompt of runs whose input has none, and its use. */
    readonly prompt: { readonly text: string; readonly use: PromptUse };
  };
  readonly tools: {
    readonly agentTools: AgentTools;
    readonly sources: ToolSources;
    readonly mcpServerFactory: McpServerFactory | undefined;
    readonly hooks: Hooks;
    /** Stores earlier contents of files that tools change. Undefined: contents are not stored. */
    readonly fileHistory: FileHistory | undefined;
    /** Creates worktrees for new sessions. Undefined: sessions cannot have worktrees. */
    readonly worktrees: Worktrees | undefined;
    /** Tools that did not stop at once after a cancel. */
    readonly unsettled: TaskSet;
  };
  readonly permissions: PermissionSettings;
  readonly budget: { readonly limits: RunLimits; readonly limiter: RunLimiter };
  readonly channels: {
    readonly bus: Bus<BusEvents>;
    readonly logger: Logger;
    readonly liveSessions: () => LiveSessions;
  };
  readonly caches: {
    readonly conversations: ConversationCache;
    readonly toolStates: ToolStateCache;
    readonly promptReports: PromptReports;
    /** Ids of the chains whose next run must look for unread steering instructions, although its conversation is cached. */
    readonly lateSteering: Set<string>;
  };
  /**
   * Starts, runs and background work. The agent waits for them before it closes its store. `closeSignal` aborts when
   * the agent closes.
   */
  readonly background: BackgroundTasks & {
    /** Ids of sessions whose title is being generated. */
    readonly sessionsBeingTitled: Set<string>;
  };
  /** Starts the run of a subagent. Rejects like `Agent.run`. */
  readonly spawn: (input: RunInput, call: SubagentCall) => Promise<Run>;
}

/** The tool call of a parent run that spawned a subagent, with the options of the subagent's run. */
export interface SubagentCall extends ParentCall {
  readonly parentRun: PermissionRun & { readonly budget: { readonly allowance: RunBudget | undefined } };
  readonly maxIterations: number;
  /** Texts of the sources of the subagent's tools about these tools. */
  readonly sourceInstructions: readonly SourceInstructions[];
  /** Pending writes that add the subagent's usage to the parent run. */
  readonly usageTasks: TaskSet;
  /** Records changed files in the state of the parent's tool call. */
  readonly recordChanges: (paths: readonly string[]) => void;
}
