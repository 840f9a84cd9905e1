import type { WindowContext } from "../../compaction/context-window.js";
import type { Model, ModelProvider, ReasoningEffort } from "../../ports/model-provider.js";
import type { Hooks } from "../../ports/hooks.js";
import type { Tool } from "../../ports/tool.js";
import type { Skill } from "../../ports/skill.js";
import type { ActiveLease } from "../../sessions/lease.js";
import type { RunLimits } from "../budget/limits.js";
import type { RunBudget } from "../budget/run-budget.js";
import type { PermissionRun } from "../permissions/permission-run.js";
import type { AgentServices, SubagentCall } from "./agent-services.js";
import type { SourceInstructions } from "../tools/tool-sources.js";
import type { EventBuffer } from "./event-buffer.js";
import type { StructuredOutput } from "./structured-output.js";

/**
 * A run: its properties and the services that it uses, in groups. Created once the run holds its session's lease. A
 * function takes the groups that it reads; no field is replaced.
 */
export interface RunContext extends PermissionRun {
  readonly agent: AgentServices;
  readonly info: PermissionRun["info"] & {
    /** Id of this run's agent in streamed tokens. */
    readonly agentId: string;
    /** Additional folders that the tools may use. */
    readonly folders: readonly string[];
    /** Set for subagent runs only. */
    readonly parentCall: SubagentCall | undefined;
    /** For a run that only compacts its session: what to keep; may be `""`. Undefined for all other runs. */
    readonly compactionInstruction: string | undefined;
    /** As in `RunInput`, for the runs of subagents. */
    readonly logFields: Readonly<Record<string, string>> | undefined;
    /** `RunInput.trace`. */
    readonly trace: string | undefined;
  };
  readonly model: {
    readonly provider: ModelProvider;
    readonly model: Model;
    readonly effort: ReasoningEffort;
    /** Text that the options or the input added to the system prompt. */
    readonly extraPrompt: string;
    /** Required form of the final answer. Undefined: free text. */
    readonly structuredOutput: StructuredOutput | undefined;
  };
  /** The run as its model calls and its context window see it. */
  readonly caller: WindowContext;
  readonly session: PermissionRun["session"] & {
    /** State that tools store for the session. */
    readonly state: Map<string, unknown>;
    readonly lease: ActiveLease;
    /** Releases the lease before `release`, with retries. Never rejects. */
    readonly releaseLease: () => Promise<void>;
  };
  readonly tools: {
    /** The tools that the model can call. Sorted by name. */
    readonly list: readonly Tool[];
    /** The tools that a subagent can get: `list` without the search for tools. */
    readonly inheritable: readonly Tool[];
    /** Texts of the sources about their tools, in the model's prompt. */
    readonly sourceInstructions: readonly SourceInstructions[];
    /** The skills listed in the model's prompt. */
    readonly skills: readonly Skill[];
    readonly hooks: Hooks;
  };
  readonly budget: PermissionRun["budget"] & {
    readonly limits: RunLimits;
    /** Budget of the run's model calls. Undefined: no limit. */
    readonly allowance: RunBudget | undefined;
  };
  readonly channels: PermissionRun["channels"] & {
    /** Events for the reader of the run. */
    readonly events: EventBuffer;
  };
  /**
   * Ends the run. Aborted by the caller and when the agent closes. Also aborted when the session is deleted, the lease
   * is lost or a write fails.
   */
  readonly cancel: AbortController;
  /** Releases what the run holds: tools, tail, inbox, lease, slot and signal listeners. Never rejects. */
  readonly release: () => Promise<void>;
}
