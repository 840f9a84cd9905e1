// `gantry/plugin`: exports for authors of adapters, tools, stores and policies. Programs that embed an agent use
// `gantry`. No name is exported by both.

// Descriptors: how a config names an adapter, and what its constructor receives.
export { inject, injectable } from "./decorators.js";
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
} from "./adapter.js";

// Options: how an adapter describes and reads its part of a config.
/** Builders and readers of options: `option.section({ port: option.integer("...", { default: 0 }) })`. */
export * as option from "./options.js";
/** The options of one MCP server, as in an entry of `mcp_servers`. */
export { mcpServerOptions } from "./mcp-server-options.js";
export { sharedOptions } from "./shared-options.js";

// Transports: the port, its base class, and the types that a transport reads from an agent.
export type { Listening, Transport } from "./transport.js";
export { ListeningBase } from "./listening-base.js";
export type { ReadinessProblem } from "../ports/readiness.js";
export type { DescribedCall } from "../run/calls/prepare.js";
export type { BackgroundWork, ProcessState } from "../ports/background.js";
export type { PlanEntry, WatchOptions } from "../ports/watch.js";
export { canRestart } from "../sessions/stored-run.js";
export { SESSION_MODES } from "../sessions/session-modes.js";
export { readAttachments, type AttachmentPolicy } from "../files/attachments.js";
export { readFilePreview, type FilePreview } from "../tools/files/file-preview.js";
export { findProjectFiles, openGit } from "./project-files.js";
export type { Git, GitLocation, GitResult, GitRunOptions, GitSetting } from "../processes/git.js";
export type { FileQuery, ProjectFileMatches } from "../processes/file-completion.js";

// Model providers: the port and shared calculations.
export type {
  FinishReason,
  Model,
  ModelChunk,
  ModelPrices,
  ModelProvider,
  ModelRequest,
  ModelUsage,
} from "../ports/model-provider.js";
export type { ModelMessage, OpaqueData, ReasoningPart, Role, TextPart, ToolCallPart } from "../ports/message.js";
export type { ToolDisplay } from "../ports/tool-display.js";
export { EFFORTS, nearestEffort } from "../models/efforts.js";
export { estimatePrompt } from "../models/estimate.js";
export { roundCost } from "../models/usage.js";

// Session drivers: the port and its stored data.
export type {
  ChainData,
  ChainHead,
  Lease,
  LeaseHead,
  LeaseConflict,
  LeaseOptions,
  AcquiredLease,
  SessionData,
  SessionDriver,
  Notifier,
} from "../ports/session-driver.js";
export type {
  AskQuery,
  MessageMatch,
  MessageQuery,
  MessageSearchPage,
  MessageSearchQuery,
  RunQuery,
  SessionPage,
  SessionQuery,
  StoredRun,
} from "../ports/session-queries.js";
export type {
  AnswerResult,
  AskResolution,
  ChangeResult,
  PartDelta,
  SessionChange,
  SessionFields,
  SessionStart,
} from "../ports/session-change.js";
export type { ChainLink, PermissionGrant, Snapshot, SpawnedBy } from "../ports/session.js";
export type { Instruction, RunAnswer, RunRewind } from "../ports/run.js";
export type { AskChoice, AskKind, AskState } from "../ports/ask.js";
export type { LeaseHolder } from "../ports/holder.js";

// Session drivers: shared helpers.
export { currentDocument, currentGrants, currentMessage, currentParts, currentRun } from "../sessions/stored-names.js";
export { DriverLifecycle, type DriverLifecycleOptions, type StoreFailure } from "../sessions/driver-lifecycle.js";
export { ChainListeners, LocalNotifiers, PollingNotifier } from "../sessions/polling-notifier.js";
export { holderState, currentHolder } from "../sessions/holder.js";
export { ProcessLock } from "../sessions/process-lock.js";
export { createFolder } from "../base/create-folder.js";

// Session drivers: full-text search.
export { decodeSearchCursor, encodeSearchCursor } from "../sessions/search/cursor.js";
export {
  findSnippet,
  parseSearchText,
  toIndexTerms,
  toQueryTerms,
  type QueryTerm,
  type QueryWord,
} from "../sessions/search/message-search.js";
export { scanMessages } from "../sessions/search/scan-messages.js";

// Session drivers over a store of documents.
export { DocumentDriver, type DocumentDriverOptions } from "../sessions/documents/document-driver.js";
export { DocumentMap } from "../sessions/documents/document-map.js";
export type { DocumentChange, DocumentStore, StoredDocument } from "../sessions/documents/document-store.js";
export { contentChain } from "../sessions/documents/keys.js";
export { MemoryDocuments } from "../sessions/documents/memory-documents.js";
export { monotonicMs } from "../base/clock.js";
export { withoutLease } from "../sessions/documents/chain.js";
export { DiskReserve, isNearlyFull } from "../sessions/disk-reserve.js";
export { MeasuredClock } from "../sessions/measured-clock.js";

// Tools: types for tools and tool sources beyond `defineTool` of `gantry`.
export type {
  CommandEnd,
  PermissionDecision,
  JsonSchema,
  Question,
  ToolCall,
  ToolCallDescription,
  ToolCallPreview,
  ToolSpec,
} from "../ports/tool.js";
export type { Diff, Location } from "../ports/tool-display.js";
export type { ToolArguments } from "../tools/define-tool.js";
export type { FromJsonSchema } from "../tools/json-schema.js";
export type { SchemaIssue, SchemaResult, StandardSchema } from "../tools/standard-schema.js";
export type { Subagent, SubagentResult, SpawnInput } from "../ports/spawn.js";
export type { OpenTools, ToolSession, ToolSource } from "../ports/tool-source.js";
export type {
  McpLoginErrorCode,
  McpServer,
  McpServerFactory,
  McpServerHttp,
  McpServerManager,
  McpServerStatus,
  McpServerStdio,
} from "../ports/mcp-server.js";
export type { SlashPrompt } from "../ports/slash-command.js";
export { startProcess, type OwnedProcess, type OwnedProgram, type ProcessEnd } from "../processes/start-process.js";

// Hooks and listeners, called in each run.
export type { HookSet } from "../ports/hooks.js";
export type { Telemetry, TelemetrySources } from "../ports/telemetry.js";

// Worktrees of sessions.
export type { GitWorktreesOptions } from "../worktrees/worktree-folder.js";
export type {
  FolderUse,
  NewWorktree,
  Worktree,
  WorktreeApplyOptions,
  WorktreeFile,
  Worktrees,
} from "../ports/worktrees.js";

// File histories and compaction strategies.
export type {
  ChangedFiles,
  ChangeOrigin,
  ChangesQuery,
  ExpectedChange,
  FileChange,
  FileDifference,
  FileHistory,
  FileRecorder,
  FileState,
  FileTarget,
  RecordedChange,
  LastUndo,
  RestoreRequest,
  TextHunk,
  UndoMark,
  UndoneFile,
} from "../ports/file-history.js";
export type { CompactionInput, CompactionStrategy } from "../ports/compaction-strategy.js";

// Time limits and cancellation.
export { abortable, createDeadline, type Deadline } from "../base/abort.js";

// Log.
export { createLoggerWithFields } from "../base/log.js";
export { RefusalLog } from "../base/refusal-log.js";

// Text and secrets.
export { isRecord, JsonDepthError, JsonError, parseJson } from "../base/json.js";
export { Redactor } from "../base/redact.js";
export { headerSecrets } from "../base/secret-detection.js";
export { newId } from "../base/ids.js";

// Types of single fields and arguments of `gantry`'s exports. Most programs let TypeScript infer them.
export type { MessagesQuery } from "../sessions/sessions.js";
export type { ForkOptions, RevertOptions } from "../sessions/rewind-operations.js";
export type { ChangedFilesQuery } from "../sessions/changed-files.js";
export type { ChangeUndoOptions } from "../sessions/undo-change.js";
export type { SearchInput } from "../sessions/search/search-messages.js";
export type { UndoOptions } from "../sessions/undo.js";
export type { CommandQuery, ListedCommand } from "../run/prompt/slash-commands.js";
export type { SessionBudget } from "../run/budget/limits.js";
export type { PromptUse, Unattended } from "../ports/agent-options.js";
export type { ModelCallNames, ModelCallTimes, ModelPurpose, ToolCallNames } from "../ports/bus-events.js";
export type { Skill } from "../ports/skill.js";
export type { WebSearchAnswer, WebSearchResult } from "../ports/web-search.js";
export type { CatalogueCache, ChosenModel } from "../models/models.js";
export type { CompactionOptions } from "../compaction/compaction.js";
export type { FolderHistoryOptions } from "../history/file-history.js";
export type { EditCheck } from "../tools/files/checks/command-check.js";
export type { FileToolOptions } from "../tools/files/files.js";
export type { LogFields } from "../ports/logger.js";
export type { LogFormatter, LogLevel } from "../base/log.js";
export type { ErrorByCode } from "../ports/errors.js";

// Errors that adapters throw. Programs that embed an agent do not receive them.
export {
  AdapterError,
  ConfigError,
  ListenError,
  PathError,
  SeqTakenError,
  ToolError,
  ToolInputError,
  WorkLimitError,
  type PathRefusal,
} from "../ports/errors.js";
