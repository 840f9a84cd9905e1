/** `gantry/client`: a typed client of the HTTP API, for browsers and Node, without dependencies. */
export { GantryClient, type RunInput, type RunOptions } from "./client.js";
export type { CallOptions, ClientOptions } from "./connection.js";
export {
  AskClosedError,
  BusyError,
  DisconnectedError,
  GantryError,
  NotFoundError,
  UnauthorizedError,
  UnavailableError,
} from "./errors.js";
export { PendingSteers, type PendingSteer } from "./pending-steers.js";
export type { RunIds, RunStream } from "./run-stream.js";
export { SessionPage, type SessionState } from "./session-page.js";
export type { Asks, Runs, Sessions } from "./sessions.js";
export type { ConnectionState, WatchedEvent, WatchOptions } from "./watch.js";
export type {
  AgentEvent,
  AnswerRequest,
  Ask,
  ContentPart,
  Diff,
  DoneEvent,
  Effort,
  Health,
  Message,
  Mode,
  Command,
  Model,
  NotReady,
  PlanEntry,
  ProcessState,
  Ready,
  Run,
  RunAccepted,
  RunRequest,
  RunResult,
  RunState,
  Session,
  SessionChange,
  SessionEvent,
  SessionList,
  ToolCall,
  Usage,
} from "../shapes.js";
