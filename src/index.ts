// `gantry`: the exports for programs that embed an agent. `gantry/plugin` has the types that a program rarely names,
// and all that authors of adapters need. `gantry/http` has the HTTP port. `gantry/testing` has the adapter checks and a
// scripted model. `gantry/adapters/<name>` has one built-in adapter. No other path is public.

// The agent, its options, and its events.
export { Agent } from "./agent/agent.js";
export type { AgentOptions } from "./agent/options.js";
export type { Readiness } from "./ports/readiness.js";
export type { BusEvents } from "./ports/bus-events.js";
export type { AgentStatistics } from "./ports/statistics.js";

// Runs: input, events, and result.
export type { AgentEvent } from "./ports/events.js";
export type { Budget } from "./ports/usage.js";
export type { Run, RunInput, RunRecord, RunResult, RunState } from "./ports/run.js";
export type { EndedBy, Usage } from "./ports/usage.js";

// Members of an agent: sessions, runs, asks, models.
export type { ContextPartName, SessionContext } from "./ports/session-context.js";
export type { UserCommand, UserCommandResult } from "./ports/user-command.js";
export type { SessionRewinds } from "./sessions/session-rewinds.js";
export type { SessionServices } from "./sessions/session-services.js";
export type { Sessions } from "./sessions/sessions.js";
export type { NewSession } from "./sessions/new-session.js";
export type { UndoResult } from "./sessions/undo.js";
export type { Runs } from "./run/queue/runs.js";
export type { Asks } from "./run/permissions/asks.js";
export type { ModelEntry, ModelPair, Models } from "./models/models.js";

// Messages, sessions, asks, and the events of a watched session.
export type { FilePart, ImagePart, Message, Part } from "./ports/message.js";
export type { Session, SessionMode } from "./ports/session.js";
export type { Ask, AskReply } from "./ports/ask.js";
export type { User, UserScope } from "./ports/user.js";
export type { SessionState, WatchEvent } from "./ports/watch.js";

// Tools: the built-in ones, and custom ones.
export { builtinTools, type BuiltinToolsOptions } from "./tools/builtin-tools.js";
export type { CommandLimits } from "./tools/shell/command-limits.js";
export type { WebSearchOptions } from "./tools/web/web-search.js";
export { defineTool, type ToolDefinition } from "./tools/define-tool.js";
export type { AskRequest, Tool, ToolContext, ToolOutput } from "./ports/tool.js";
export type { ToolKind } from "./ports/tool-display.js";
export type { SlashCommand } from "./ports/slash-command.js";

// Decisions about tool calls: policies, rules, hooks.
export type { Permission, PermissionPolicy, PermissionRequest, PermissionRule } from "./ports/permission-policy.js";
export type { Hooks, ModelCall } from "./ports/hooks.js";

// Built-in parts of an agent: the memory store, compaction without a model, file history for `undo`, the logger.
export { MemoryDriver } from "./memory-driver/memory-driver.js";
export { SlidingWindow } from "./compaction/sliding-window.js";
export { folderHistory } from "./history/folder-history.js";
export { gitWorktrees } from "./worktrees/git-worktrees.js";
export { createLogger, silentLogger } from "./base/log.js";
export type { Logger } from "./ports/logger.js";

// Reasoning effort of a model, set by a run or the agent.
export type { ReasoningEffort } from "./ports/model-provider.js";

// Errors of the public API. `hasCode` distinguishes them by `code`.
export {
  AskClosedError,
  AskNotFoundError,
  AttachmentError,
  BudgetExceededError,
  ForbiddenError,
  GantryError,
  CommandsDisabledError,
  hasCode,
  InputError,
  LeaseLostError,
  ModelSelectionError,
  ModelTimeoutError,
  NothingToUndoError,
  OutputSchemaError,
  PointNotFoundError,
  ProjectFolderError,
  ProviderError,
  RepeatedCallsError,
  RunCancelledError,
  RunKeyTakenError,
  RunNotFoundError,
  SessionBusyError,
  SessionExistsError,
  SessionNotFoundError,
  ShuttingDownError,
  StoreError,
  TooManyRunsError,
  UndoConflictError,
  WorktreeConflictError,
  type ProviderErrorKind,
} from "./ports/errors.js";
