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
export { PendingSteers, type PendingSteer } from "./pending-steers.js";
export type { RunIds, RunStream } from "./run-stream.js";
export { SessionMirror, type ApiSessionState } from "./session-mirror.js";
export type { AsksApi, RunsApi, SessionsApi } from "./sessions.js";
export type { ConnectionState, WatchedEvent, ApiWatchOptions } from "./watch.js";
export type { AnswerRequest, Effort, Mode, RunRequest, ApiRunState, ApiSessionChange } from "../request-shapes.js";
export type {
  ApiAsk,
  ContentPart,
  ApiDiff,
  Health,
  ApiMessage,
  Command,
  ApiModel,
  NotReady,
  Ready,
  ApiRun,
  RunAccepted,
  ApiRunResult,
  ApiSession,
  SessionList,
  ApiToolCall,
  ApiUsage,
} from "../response-shapes.js";
export type { ApiAgentEvent, DoneEvent, ApiPlanEntry, ApiProcessState, SessionEvent } from "../event-shapes.js";
