// `gantry`: what programs import that embed an agent. Types of single fields and arguments, which a program hardly ever
// names, are in `gantry/plugin` with all that authors of adapters need. `gantry/http` has the HTTP port, `gantry/testing`
// the checks of adapters and a scripted model, `gantry/adapters/<name>` one adapter of ours; nothing else is promised.

// The agent, what it is made of, and what it reports.
export { Agent } from "./agent/agent.js";
export type { AgentOptions } from "./agent/options.js";
export type { Readiness } from "./ports/readiness.js";
export type { BusEvents } from "./ports/bus-events.js";

// Runs: what a run is asked to do, the events of a run, and its result.
export type { AgentEvent } from "./ports/events.js";
export type { Budget, Run, RunInput, RunRecord, RunResult, RunState } from "./ports/run.js";
export type { EndedBy } from "./ports/budget.js";

// The faces of an agent: sessions, runs, questions, models.
export type { Sessions } from "./sessions/sessions.js";
export type { NewSession } from "./sessions/new-session.js";
export type { Undone } from "./sessions/undo.js";
export type { Runs } from "./run/runs.js";
export type { Asks } from "./run/permissions/requests.js";
export type { ModelEntry, ModelPair, Models } from "./models/models.js";

// Messages, sessions, questions, and the events of a watched session.
export type { FilePart, ImagePart, Message, Part } from "./ports/message.js";
export type { Session, SessionMode } from "./ports/session.js";
export type { Ask, AskReply } from "./ports/ask.js";
export type { Usage } from "./ports/usage.js";
export type { SessionState, WatchEvent } from "./ports/watch.js";

// Tools: those that are built in, and those of the program.
export { builtinTools, type BuiltinToolsOptions } from "./tools/all.js";
export { defineTool, type ToolDefinition } from "./tools/define-tool.js";
export type { AskRequest, Tool, ToolContext, ToolKind, ToolOutput } from "./ports/tool.js";
export type { SlashCommand } from "./ports/slash-command.js";

// Decisions about tool calls: policies, rules, hooks.
export type { Permission, PermissionPolicy, PermissionRequest, PermissionRule } from "./ports/permission-policy.js";
export type { Hooks, ModelCall } from "./ports/hooks.js";

// Parts of an agent that are built in: the store in memory, compaction without a model, copies for `undo`, the log.
export { MemoryDriver } from "./memory-driver/memory-driver.js";
export { SlidingWindow } from "./compaction/sliding-window.js";
export { folderHistory } from "./history/folder-history.js";
export { createLogger, silentLogger } from "./base/log.js";
export type { Logger } from "./ports/logger.js";

// How hard a model thinks, where a run or the agent says so.
export type { ReasoningEffort } from "./ports/model-provider.js";

// Errors that a program can meet; `hasCode` tells them apart by `code`.
export {
  AskClosedError,
  AskNotFoundError,
  AttachmentError,
  BudgetSpentError,
  GantryError,
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
  type ProviderErrorKind,
} from "./ports/errors.js";
