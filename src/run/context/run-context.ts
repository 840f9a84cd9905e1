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
import type { ToolServers } from "../../ports/mcp-server.js";
import type { Project } from "../../project/project.js";
import type { Skill } from "../../ports/skill.js";
import type { PromptUse } from "../../ports/prompt-use.js";
import type { HeldLease } from "../../sessions/lease.js";
import type { EventBuffer } from "./event-buffer.js";
import type { AgentTools } from "../tools/agent-tools.js";
import type { Live } from "../../watch/live.js";
import type { CommandOptions } from "../prompt/slash-commands.js";
import type { Tail } from "../../watch/tail.js";
import type { Unattended } from "../../ports/unattended.js";
import type { Inbox } from "../queue/inbox.js";
import type { KeptConversations } from "./conversation-cache.js";
import type { RunBudget } from "../budget/meter.js";
import type { RunClock } from "../budget/time-limit.js";
import type { RunLimits } from "../budget/limits.js";
import type { RunPlaces } from "../budget/concurrency.js";
import type { Structure } from "./structured-output.js";
import type { ToolSources } from "../tools/sources.js";
import type { ToolStates } from "../tools/tool-state.js";

/** Of a helper's run: who asked for it. */
export interface Spawned {
  readonly asker: RunContext;
  /** The asker's tool call. */
  readonly callId: string;
  /** Names the helper for people. */
  readonly title: string;
  /** The asker's mode, as it was then. */
  readonly mode: SessionMode;
  readonly maxIterations: number;
  /** What it has spent is counted in the asker's run. */
  readonly counted: TaskSet;
  /** Records changed files in the state of the asker's tool call. */
  readonly recordChanges: (paths: readonly string[]) => void;
}

/** What all runs of an agent share; made once, with the agent. */
export interface AgentParts {
  /** Reported with streamed tokens. */
  readonly name: string;
  /** The store, opened with its first use. */
  readonly store: () => Promise<SessionDriver>;
  readonly models: Models;
  readonly bus: Bus<BusEvents>;
  readonly logger: Logger;
  readonly tools: AgentTools;
  readonly sources: ToolSources;
  readonly toolServers: ToolServers | undefined;
  /** Keeps what files were before tools changed them; undefined: nobody does. */
  readonly fileHistory: FileHistory | undefined;
  readonly commands: CommandOptions;
  /** Asked in order, before the rules. */
  readonly permissions: readonly PermissionPolicy[];
  readonly rules: readonly PermissionRule[];
  /** Of sessions that are new. */
  readonly mode: SessionMode;
  readonly asking: { readonly unattended: Unattended; readonly timeoutMs: number };
  readonly hooks: Hooks;
  readonly compaction: Compaction;
  /** For the system prompt of runs that bring nothing of their own. */
  readonly prompt: { readonly text: string; readonly use: PromptUse };
  /** What the folders of runs say of themselves. */
  readonly project: Project;
  readonly limits: RunLimits;
  /** Of sessions that are new. */
  readonly projectDir: string;
  readonly reasoningEffort: ReasoningEffort;
  readonly places: RunPlaces;
  readonly states: ToolStates;
  readonly kept: KeptConversations;
  /** Who watches. */
  readonly live: () => Live;
  /** Begin the run of a helper. Rejects as `Agent.run`. */
  readonly spawn: (input: RunInput, spawned: Spawned) => Promise<Run>;
  /** Sessions that a title is being made for. */
  readonly naming: Set<string>;
  /** Aborted when the agent closes. */
  readonly closing: AbortSignal;
  /** Starts, runs and background work: what the agent waits for before it closes its store. */
  readonly tasks: TaskSet;
  /** Tools that a cancel could not end at once. */
  readonly stragglers: TaskSet;
}

/**
 * A run: what it is, and what it uses. Made once, when it holds its session; the loop, the context window and the tool
 * calls read it, and nothing replaces a field of it.
 */
export interface RunContext {
  readonly agent: AgentParts;
  readonly id: string;
  /** The chain's first session. */
  readonly sessionId: string;
  /** Undefined: it is no helper's. */
  readonly spawned: Spawned | undefined;
  /** Told with streamed tokens. */
  readonly agentId: string;
  readonly provider: ModelProvider;
  readonly model: Model;
  readonly effort: ReasoningEffort;
  readonly system: string;
  /** What was added to the system prompt. */
  readonly extraPrompt: string;
  /** Sorted by name. */
  readonly tools: readonly Tool[];
  /** Those that the model was told of. */
  readonly skills: readonly Skill[];
  readonly hooks: Hooks;
  readonly limits: RunLimits;
  /** What its model calls may spend; undefined: what they like. */
  readonly allowance: RunBudget | undefined;
  /** Of one that only compacts its session, what is to be kept; undefined of all others. */
  readonly compacts: string | undefined;
  /** Ends it when its time is over; undefined: it has as long as it takes. */
  readonly clock: RunClock | undefined;
  readonly unknownPrice: ModelPrices | undefined;
  /** Of its last answer; undefined: any. */
  readonly structure: Structure | undefined;
  readonly outputSchema: JsonSchema | undefined;
  /** Absolute path of the folder where its tools run. */
  readonly projectDir: string;
  /** Others that they may use. */
  readonly folders: readonly string[];
  /** What was said so far; of a chain its newest session. */
  readonly conversation: Conversation;
  /** What the session's tools remember. */
  readonly state: Map<string, unknown>;
  readonly store: SessionDriver;
  readonly lease: HeldLease;
  /** Writes to the store under the lease. */
  readonly recorder: Recorder;
  readonly bus: Bus<BusEvents>;
  /** What others ask of it. */
  readonly inbox: Inbox;
  /** What who watches the session is told at once. */
  readonly tail: Tail;
  /** Names the run in each line. */
  readonly logger: Logger;
  /** Events for whoever reads the run. */
  readonly events: EventBuffer;
  readonly ask: RunInput["ask"];
  /** Whether tools that need permission ask there whatever the session's mode. */
  readonly asksInAuto: boolean;
  /** Names the door of `ask`. */
  readonly askedAt: string;
  /** Ids of what it asks people now. */
  readonly asking: Set<string>;
  /** Ends the run: its session is deleted, a batch could not be stored. So do the caller, the agent's end and a lost lease. */
  readonly cancel: AbortController;
  /** That of `cancel`. */
  readonly signal: AbortSignal;
  /** Gives back what it has of the agent: its place, its tools, its ties to other signals. Called once, when it has ended. */
  readonly leave: () => void;
}
