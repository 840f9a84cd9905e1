import * as shapes from "./shapes.js";

/** Name of a shape in the document. */
export type ShapeName = {
  [Name in keyof typeof shapes]: (typeof shapes)[Name] extends { kind: "schema" } ? Name : never;
}[keyof typeof shapes];

/**
 * All shapes by name. The explicit list keeps bundles small: a use of the whole namespace prevents tree shaking in
 * every importer.
 */
export const SHAPES = {
  Usage: shapes.Usage,
  Tokens: shapes.Tokens,
  Mode: shapes.Mode,
  Effort: shapes.Effort,
  FinishReason: shapes.FinishReason,
  RunState: shapes.RunState,
  Failure: shapes.Failure,
  Health: shapes.Health,
  Ready: shapes.Ready,
  NotReady: shapes.NotReady,
  Model: shapes.Model,
  ModelList: shapes.ModelList,
  SpawnedBy: shapes.SpawnedBy,
  Command: shapes.Command,
  CommandList: shapes.CommandList,
  FileList: shapes.FileList,
  McpServerStatus: shapes.McpServerStatus,
  McpServerList: shapes.McpServerList,
  McpLoginRequest: shapes.McpLoginRequest,
  McpLogin: shapes.McpLogin,
  McpLogout: shapes.McpLogout,
  Session: shapes.Session,
  SessionList: shapes.SessionList,
  ContentPart: shapes.ContentPart,
  ToolCall: shapes.ToolCall,
  Diff: shapes.Diff,
  Location: shapes.Location,
  Message: shapes.Message,
  MessageList: shapes.MessageList,
  MessageMatch: shapes.MessageMatch,
  MessageMatchList: shapes.MessageMatchList,
  RunResult: shapes.RunResult,
  RunAccepted: shapes.RunAccepted,
  Run: shapes.Run,
  RunList: shapes.RunList,
  SessionRun: shapes.SessionRun,
  SteerAccepted: shapes.SteerAccepted,
  BackgroundAccepted: shapes.BackgroundAccepted,
  Deleted: shapes.Deleted,
  AskReply: shapes.AskReply,
  Ask: shapes.Ask,
  AskList: shapes.AskList,
  AskClosed: shapes.AskClosed,
  Budget: shapes.Budget,
  Attachment: shapes.Attachment,
  RunRewind: shapes.RunRewind,
  RunRequest: shapes.RunRequest,
  SessionChange: shapes.SessionChange,
  SteerRequest: shapes.SteerRequest,
  BackgroundRequest: shapes.BackgroundRequest,
  AnswerRequest: shapes.AnswerRequest,
  ForkRequest: shapes.ForkRequest,
  RewindRequest: shapes.RewindRequest,
  UndoRequest: shapes.UndoRequest,
  RedoRequest: shapes.RedoRequest,
  RestoreRequest: shapes.RestoreRequest,
  Hunk: shapes.Hunk,
  UndoChangeRequest: shapes.UndoChangeRequest,
  UndoneFile: shapes.UndoneFile,
  UndoResult: shapes.UndoResult,
  UndoConflict: shapes.UndoConflict,
  Restored: shapes.Restored,
  Snapshot: shapes.Snapshot,
  SnapshotList: shapes.SnapshotList,
  ChangedFile: shapes.ChangedFile,
  ChangedFileList: shapes.ChangedFileList,
  GitState: shapes.GitState,
  SessionContext: shapes.SessionContext,
  ShellRequest: shapes.ShellRequest,
  ShellResult: shapes.ShellResult,
  ShellOutputEvent: shapes.ShellOutputEvent,
  FileContent: shapes.FileContent,
  Worktree: shapes.Worktree,
  SessionWorktree: shapes.SessionWorktree,
  ApplyRequest: shapes.ApplyRequest,
  WorktreeFile: shapes.WorktreeFile,
  Applied: shapes.Applied,
  WorktreeConflict: shapes.WorktreeConflict,
  TokenEvent: shapes.TokenEvent,
  ToolCallEvent: shapes.ToolCallEvent,
  ToolResultEvent: shapes.ToolResultEvent,
  CompactionEvent: shapes.CompactionEvent,
  QueuedEvent: shapes.QueuedEvent,
  SteeredEvent: shapes.SteeredEvent,
  DoneEvent: shapes.DoneEvent,
  AgentEvent: shapes.AgentEvent,
  PlanEntry: shapes.PlanEntry,
  ProcessState: shapes.ProcessState,
  StateEvent: shapes.StateEvent,
  MessageEvent: shapes.MessageEvent,
  DeltaEvent: shapes.DeltaEvent,
  MessageEndEvent: shapes.MessageEndEvent,
  RewindEvent: shapes.RewindEvent,
  ToolProgressEvent: shapes.ToolProgressEvent,
  DeletedEvent: shapes.DeletedEvent,
  WatchedStateEvent: shapes.WatchedStateEvent,
  WatchedMessageEvent: shapes.WatchedMessageEvent,
  WatchedDeltaEvent: shapes.WatchedDeltaEvent,
  WatchedMessageEndEvent: shapes.WatchedMessageEndEvent,
  WatchedRewindEvent: shapes.WatchedRewindEvent,
  WatchedToolProgressEvent: shapes.WatchedToolProgressEvent,
  WatchedDeletedEvent: shapes.WatchedDeletedEvent,
  WatchFailedEvent: shapes.WatchFailedEvent,
  SessionChangedEvent: shapes.SessionChangedEvent,
  SessionRemovedEvent: shapes.SessionRemovedEvent,
} satisfies Record<ShapeName, object>;

interface Note {
  description?: string;
  properties?: Readonly<Record<string, object>>;
}

/**
 * Constraints that the schemas do not express, because the operations check them. The document merges the notes over
 * its schemas.
 */
export const NOTES: Readonly<Partial<Record<ShapeName, Note>>> = {
  Budget: {
    description: "The maximum that the run may use. A missing field sets no limit; an unknown field is rejected",
    properties: {
      usd: { maximum: 1_000_000, description: "US dollars; the price of the model must be known" },
      tokens: { type: "integer", maximum: 1_000_000_000_000, description: "prompt and completion tokens" },
      seconds: { maximum: 1_000_000, description: "from the start of the run" },
    },
  },
  SessionChange: {
    description:
      'A missing field is not changed. `""` counts as missing, except for a title. `provider` and `model` must be sent together: one alone is rejected with 400',
    properties: {
      title: { description: "one line of visible text, at most 50 characters; no title is generated after that" },
      archived: { description: "true cancels the session's runs, and hides the session from lists" },
      shared: { description: "true lets all users of the server read and continue the session" },
    },
  },
};
