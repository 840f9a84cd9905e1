/** `gantry/client`: a typed client of the HTTP API, for browsers and Node, without dependencies. */
export { GantryClient, type ApiRunInput, type RunOptions } from "./client.js";
export type { CallOptions, ClientOptions } from "./connection.js";
export {
  AskConflictError,
  BusyError,
  DisconnectedError,
  ApiError,
  NotFoundError,
  UnauthorizedError,
  UnavailableError,
} from "./errors.js";
export { McpServersClient } from "./mcp-servers.js";
export { PendingSteers, type PendingSteer } from "./pending-steers.js";
export type { RunIds, RunStream } from "./run-stream.js";
export type { RewindInput, SessionRewindsApi, UndoChangeInput, UndoInput } from "./rewind.js";
export { SessionMirror, type ApiSessionState } from "./session-mirror.js";
export type { AsksApi, RunsApi, SessionsApi } from "./sessions.js";
export type { SharedStreamHandlers } from "./shared-stream.js";
export type { ApiShellCommand } from "./shell.js";
export type { ConnectionState, WatchedEvent, ApiWatchOptions } from "./watch.js";
export type { SharedWatchOptions, WatchAll, WatchAllOptions } from "./watch-all.js";
export type {
  ApiAgentEvent,
  ApiChangedFile,
  ApiHunk,
  ApiSnapshot,
  ApiUndoneFile,
  ApiUndoResult,
  ChangedFileList,
  GitState,
  AnswerRequest,
  ApiAsk,
  ContentPart,
  ApiDiff,
  ApiFileContent,
  DoneEvent,
  Effort,
  Health,
  ApiMessage,
  ApiMessageMatch,
  MessageMatchList,
  Mode,
  Command,
  ApiMcpServer,
  ApiModel,
  NotReady,
  ApiPlanEntry,
  ApiProcessState,
  Ready,
  ApiRun,
  RunAccepted,
  RunRequest,
  ApiRunResult,
  ApiRunState,
  ApiSession,
  ApiSessionChange,
  ApiSessionContext,
  ApiShellResult,
  SessionEvent,
  SessionList,
  ShellRequest,
  ApiToolCall,
  ApiUsage,
  ApiWorktree,
  ApiWorktreeFile,
} from "../shapes.js";
