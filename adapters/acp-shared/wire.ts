/** Protocol version of this agent; the answer to every version that a client offers. */
export const PROTOCOL_VERSION = 1;

/** Methods that clients call. */
export const METHODS = {
  initialize: "initialize",
  authenticate: "authenticate",
  logout: "logout",
  sessionNew: "session/new",
  sessionLoad: "session/load",
  sessionResume: "session/resume",
  sessionFork: "session/fork",
  sessionSetTitle: "session/set_title",
  sessionArchive: "session/archive",
  sessionUnarchive: "session/unarchive",
  sessionPrompt: "session/prompt",
  sessionDelete: "session/delete",
  sessionClose: "session/close",
  sessionList: "session/list",
  sessionCancel: "session/cancel",
  setConfigOption: "session/set_config_option",
  setMode: "session/set_mode",
  /** The official method to cancel a request. */
  cancelRequest: "$/cancel_request",
  /** Accepted and ignored. */
  legacyCancelRequest: "$/cancelRequest",
} as const;

/** Methods that the agent calls on the client. */
export const CLIENT_METHODS = {
  update: "session/update",
  requestPermission: "session/request_permission",
  createElicitation: "elicitation/create",
  readTextFile: "fs/read_text_file",
  writeTextFile: "fs/write_text_file",
} as const;

export const ERROR_CODES = {
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
  authRequired: -32000,
  resourceNotFound: -32002,
  cancelled: -32800,
} as const;

/** `spec`: exactly as in the interface specification. `official`: as in the official schema. */
export type Profile = "spec" | "official";

/** Configured profile; `auto` chooses by the client's `initialize`. */
export type ProfileChoice = Profile | "auto";

export type RequestId = string | number | null;

export interface ErrorObject {
  code: number;
  message: string;
  data?: unknown;
}

export interface RequestMessage {
  jsonrpc: "2.0";
  id: RequestId;
  method: string;
  params?: unknown;
}

export interface NotificationMessage {
  jsonrpc: "2.0";
  method: string;
  params?: unknown;
}

export type ResponseMessage =
  { jsonrpc: "2.0"; id: RequestId; result: unknown } | { jsonrpc: "2.0"; id: RequestId; error: ErrorObject };

/** A message that the agent sends. */
export type OutgoingMessage = RequestMessage | NotificationMessage | ResponseMessage;

export type ContentBlock =
  | { type: "text"; text: string }
  | { type: "image"; data: string; mimeType: string }
  | { type: "resource_link"; uri: string; name: string; mimeType?: string };

export type ToolCallContent =
  | { type: "content"; content: ContentBlock }
  | { type: "diff"; path: string; oldText: string | null; newText: string }
  | { type: "terminal"; terminalId: string };

/** Fields of `_meta` that describe a terminal which the agent runs (Zed 0.2xx, codex-acp, claude-agent-acp). */
export interface TerminalMeta {
  terminal_info?: { terminal_id: string };
  /** Text to append to the terminal. */
  terminal_output?: { terminal_id: string; data: string };
  /** Both null if the command has no exit status. */
  terminal_exit?: { terminal_id: string; exit_code: number | null; signal: string | null };
}

export type ToolCallStatus = "pending" | "in_progress" | "completed" | "failed";

export interface ToolCallFields {
  toolCallId: string;
  title?: string;
  kind?: string;
  status?: ToolCallStatus;
  content?: ToolCallContent[];
  locations?: { path: string; line?: number }[];
  rawInput?: unknown;
  rawOutput?: unknown;
  _meta?: TerminalMeta;
}

export interface AcpPlanEntry {
  content: string;
  priority: "high" | "medium" | "low";
  status: "pending" | "in_progress" | "completed";
}

export interface SelectOption {
  id: string;
  name: string;
  description?: string;
  category: "model" | "thought_level" | "mode";
  type: "select";
  currentValue: string;
  options: { value: string; name: string; description?: string }[];
}

/** `modes` of the result that opens a session. */
export interface ModeState {
  currentModeId: string;
  availableModes: { id: string; name: string; description?: string }[];
}

/** A slash command. */
export interface AvailableCommand {
  name: string;
  description: string;
  /** Description of the arguments after the name. */
  input?: { hint: string };
}

/** `params.update` of `session/update`. */
export type SessionUpdate =
  | {
      sessionUpdate: "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk";
      messageId: string;
      content: ContentBlock;
      /** Set on the last chunk of a stored message that is still being written or was interrupted. */
      _meta?: { finished: false };
    }
  | ({ sessionUpdate: "tool_call"; title: string } & ToolCallFields)
  | ({ sessionUpdate: "tool_call_update" } & ToolCallFields)
  | { sessionUpdate: "plan"; entries: AcpPlanEntry[] }
  | { sessionUpdate: "usage_update"; used: number; size: number; cost: { amount: number; currency: "USD" } }
  | { sessionUpdate: "config_option_update"; configOptions: SelectOption[] }
  | { sessionUpdate: "current_mode_update"; currentModeId: string }
  | { sessionUpdate: "session_info_update"; title: string; updatedAt: string }
  | { sessionUpdate: "available_commands_update"; availableCommands: AvailableCommand[] }
  | { sessionUpdate: "compaction_update"; compactionId: string; status: "completed" }
  | { sessionUpdate: "notice"; severity: "info" | "warning" | "error"; title: string; description?: string };

export type StopReason = "end_turn" | "max_tokens" | "max_turn_requests" | "refusal" | "cancelled" | "error";

/** Result of `session/prompt`. */
export interface PromptResult {
  stopReason: StopReason;
  /** The error of a failed prompt, or the active run that received a prompt with `_meta.steer`. */
  _meta?: { error: { message: string } } | { steered: { runId: string } };
}

export type PermissionKind = "allow_once" | "allow_always" | "reject_once" | "reject_always";

export interface PermissionOption {
  optionId: string;
  name: string;
  kind: PermissionKind;
}

export type PermissionOutcome = { outcome: "cancelled" } | { outcome: "selected"; optionId: string };
