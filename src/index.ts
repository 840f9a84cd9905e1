// What programs import that embed gantry or extend it. What mounts on an HTTP port is in "gantry/http", checks for
// those who write an edge in "gantry/testing", each edge of ours in "gantry/adapters/<name>"; nothing else is promised.

// Embedding: an agent, its parts, what it tells.
export { Agent } from "./agent.js";
export type { AgentOptions } from "./agent-options.js";
export type { NotReady, Readiness } from "./ports/readiness.js";
export type { AgentEvent } from "./ports/events.js";
export type { BusEvent, BusEvents, BusListener } from "./ports/bus-events.js";
export type { Budget, Instruction, Run, RunAnswer, RunInput, RunRecord, RunResult, RunState } from "./ports/run.js";
export type { MessagesQuery, NewSession, RevertOptions, Sessions } from "./sessions/sessions.js";
export type { Undone, UndoOptions } from "./sessions/undo.js";
export type { Runs } from "./run/runs.js";
export type { SessionBudget } from "./run/limits.js";
export type { Asks } from "./run/asks.js";
export type { Unattended } from "./run/unattended.js";
export type { CatalogueCache, ModelEntry, ModelPair, Models } from "./models/models.js";
export type { CompactionOptions } from "./compaction/compaction.js";
export type { DescribedCall } from "./run/describe-call.js";
export { defineTool, type ToolArguments, type ToolDefinition } from "./tools/define-tool.js";
export type { FromJsonSchema } from "./tools/json-schema.js";
export type { SchemaIssue, SchemaResult, StandardSchema } from "./tools/standard-schema.js";
export { builtinTools, type BuiltinToolsOptions } from "./tools/all.js";
export { createLogger, silentLogger, type LogLevel } from "./base/log.js";

// What is said and kept.
export type {
  FilePart,
  ImagePart,
  Message,
  ModelMessage,
  Opaque,
  Part,
  ReasoningPart,
  Role,
  Shown,
  TextPart,
  ToolCallPart,
} from "./ports/message.js";
export type { ChainLink, Leave, Session, SessionMode, Snapshot, SpawnedBy } from "./ports/session.js";
export type { Ask, AskChoice, AskKind, AskReply, AskState } from "./ports/ask.js";
export type { Usage } from "./ports/usage.js";

// The ports: what an edge must offer.
export type { Listening, Transport } from "./plugin/transport.js";
export type {
  FinishReason,
  Model,
  ModelChunk,
  ModelPrices,
  ModelProvider,
  ModelRequest,
  ModelUsage,
  ReasoningEffort,
} from "./ports/model-provider.js";
export type {
  AskAnswer,
  AskRequest,
  Diff,
  JsonSchema,
  Location,
  Tool,
  ToolCall,
  ToolCallDescription,
  ToolCallPreview,
  ToolContext,
  ToolKind,
  ToolOutput,
  ToolSpec,
} from "./ports/tool.js";
export type { Helper, HelperResult, SpawnInput } from "./ports/spawn.js";
export type { BackgroundWork, ProcessState } from "./ports/background.js";
export type { CommandQuery } from "./run/agent-commands.js";
export type { ListedCommand } from "./run/commands.js";
export type { OpenTools, ToolSession, ToolSource } from "./ports/tool-source.js";
export type { ToolAddress, ToolProgram, ToolServer, ToolServers } from "./ports/tool-server.js";

// What files were before tools changed them.
export { folderHistory } from "./history/folder-history.js";
export type { FolderHistoryOptions } from "./history/file-history.js";
export type {
  ChangePlace,
  FileChange,
  FileHistory,
  FileKeeper,
  FileState,
  Keeping,
  RestoreRequest,
  UndoMark,
  ExpectedChange,
  LastUndo,
  UndoneFile,
} from "./ports/file-history.js";
export type { SlashCommand, SlashPrompt } from "./ports/slash-command.js";
export type { Skill } from "./ports/skill.js";
export type { Permission, PermissionPolicy, PermissionRequest, PermissionRule } from "./ports/permission-policy.js";
export type { Hooks, ModelCall } from "./ports/hooks.js";
export type { PlanEntry, SessionState, WatchEvent, WatchOptions } from "./ports/watch.js";
export type { Notifier } from "./ports/notifier.js";
export type { Holder } from "./ports/holder.js";
export type {
  AskAnswered,
  AskQuery,
  ChainData,
  ChainHead,
  Lease,
  LeaseHeld,
  LeaseOptions,
  LeaseTaken,
  MessagePage,
  PartDelta,
  RunQuery,
  SessionChange,
  SessionData,
  SessionDriver,
  SessionFields,
  SessionPage,
  SessionQuery,
  SessionStart,
  StoredRun,
} from "./ports/session-driver.js";
export type { CompactionInput, CompactionStrategy } from "./ports/compaction-strategy.js";
export type { LogFields, Logger } from "./ports/logger.js";

// Plugins: an edge that a config names.
export { inject, injectable } from "./plugin/decorators.js";
export {
  defineAdapter,
  HOME,
  HTTP_HOST,
  LOGGER,
  OPTIONS,
  type AdapterContext,
  type AdapterDefinition,
  type AdapterDescriptor,
  type AdapterKind,
  type AdapterKinds,
  type OptionsContext,
} from "./plugin/adapter.js";
export { Serving } from "./plugin/serving.js";
/** How options are described and read: `option.section({ port: option.whole("...", { default: 0 }) })`. */
export * as option from "./plugin/options.js";
/** The options of one server of tools, as `mcp_servers` in a config has them by name. */
export { toolServerOptions } from "./plugin/tool-server-options.js";
export { sharedOptions } from "./plugin/shared-options.js";

// What authors of edges share with ours.
export { EFFORTS, nearestEffort } from "./models/efforts.js";
export { DriverLife, type DriverLifeOptions } from "./sessions/driver-life.js";
export { Hints, LookingNotifier } from "./sessions/hints.js";
export { holderState, thisHolder } from "./sessions/holder.js";
export { MemoryDriver } from "./sessions/memory-driver.js";
export { SESSION_MODES } from "./sessions/session-modes.js";
export { withoutLease } from "./sessions/documents/chain.js";
export { DocumentDriver, type DocumentDriverOptions } from "./sessions/documents/document-driver.js";
export { DocumentMap } from "./sessions/documents/document-map.js";
export type { DocumentChange, DocumentStore, StoredDocument } from "./sessions/documents/document-store.js";
export { contentChain } from "./sessions/documents/keys.js";
export { MemoryDocuments } from "./sessions/documents/memory-documents.js";
export { brokeOff } from "./sessions/stored-run.js";
export { SlidingWindow } from "./compaction/sliding-window.js";
export { createFolder } from "./base/create-folder.js";
export { isRecord, JsonDepthError, JsonError, parseJson } from "./base/json.js";
export { headerSecrets, Redactor } from "./base/redact.js";
export { newId } from "./base/ids.js";
export { readAttachments, type AttachmentPolicy } from "./files/attachments.js";
export { estimatePrompt } from "./models/estimate.js";
export { roundCost } from "./models/usage.js";

export { startProcess, type OwnedProcess, type OwnedProgram, type ProcessEnd } from "./processes/start-process.js";

// Errors, told apart by `code`.
export {
  AdapterError,
  AskClosedError,
  AskNotFoundError,
  AttachmentError,
  BudgetSpentError,
  ConfigError,
  GantryError,
  hasCode,
  InputError,
  LeaseLostError,
  ListenError,
  ModelSelectionError,
  ModelTimeoutError,
  NothingToUndoError,
  OutputSchemaError,
  PathError,
  PointNotFoundError,
  ProjectFolderError,
  ProviderError,
  RepeatedCallsError,
  RunCancelledError,
  RunKeyTakenError,
  RunNotFoundError,
  SeqTakenError,
  SessionBusyError,
  SessionExistsError,
  SessionNotFoundError,
  ShuttingDownError,
  StoreError,
  ToolError,
  ToolInputError,
  TooManyRunsError,
  UndoConflictError,
  WorkLimitError,
  type PathRefusal,
  type ProviderErrorKind,
} from "./ports/errors.js";
