/** The version that this agent speaks; every version that a client offers is answered with it. */
export const PROTOCOL_VERSION = 1;

/** Methods that clients call. */
export const METHODS = {
  initialize: "initialize",
  authenticate: "authenticate",
  sessionNew: "session/new",
  sessionLoad: "session/load",
  sessionResume: "session/resume",
  sessionPrompt: "session/prompt",
  sessionDelete: "session/delete",
  sessionClose: "session/close",
  sessionList: "session/list",
  sessionCancel: "session/cancel",
  setConfigOption: "session/set_config_option",
  setMode: "session/set_mode",
  /** The official name: cancels the request that it names. */
  cancelRequest: "$/cancel_request",
  /** Accepted, and does nothing. */
  legacyCancelRequest: "$/cancelRequest",
} as const;

/** Methods that the agent calls on the client. */
export const CLIENT_METHODS = {
  update: "session/update",
  requestPermission: "session/request_permission",
  readTextFile: "fs/read_text_file",
  writeTextFile: "fs/write_text_file",
} as const;

export const CODES = {
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
  cancelled: -32800,
} as const;

/** `spec`: to the letter of the interface document. `official`: as the official clients know it. */
export type Profile = "spec" | "official";

/** What config says: one of the two, or by what each client says of itself. */
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

/** What an agent sends. */
export type OutgoingMessage = RequestMessage | NotificationMessage | ResponseMessage;

export type ContentBlock =
  | { type: "text"; text: string }
  | { type: "image"; data: string; mimeType: string }
  | { type: "resource_link"; uri: string; name: string; mimeType?: string };

export type ToolCallContent =
  { type: "content"; content: ContentBlock } | { type: "diff"; path: string; oldText: string | null; newText: string };

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
}

export interface PlanEntry {
  content: string;
  priority: "medium";
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

/** `modes` of what opens a session. */
export interface ModeState {
  currentModeId: string;
  availableModes: { id: string; name: string; description?: string }[];
}

/** What the client's person may say by `/name words`. */
export interface AvailableCommand {
  name: string;
  description: string;
  /** What to type behind the name. */
  input?: { hint: string };
}

/** `params.update` of `session/update`. */
export type SessionUpdate =
  | {
      sessionUpdate: "user_message_chunk" | "agent_message_chunk" | "agent_thought_chunk";
      messageId: string;
      content: ContentBlock;
      /** Of the last chunk of a stored message that is not whole: it still grows, or broke off. */
      _meta?: { finished: false };
    }
  | ({ sessionUpdate: "tool_call"; title: string } & ToolCallFields)
  | ({ sessionUpdate: "tool_call_update" } & ToolCallFields)
  | { sessionUpdate: "plan"; entries: PlanEntry[] }
  | { sessionUpdate: "usage_update"; used: number; size: number; cost: { amount: number; currency: "USD" } }
  | { sessionUpdate: "config_option_update"; configOptions: SelectOption[] }
  | { sessionUpdate: "current_mode_update"; currentModeId: string }
  | { sessionUpdate: "session_info_update"; title: string; updatedAt: string }
  | { sessionUpdate: "available_commands_update"; availableCommands: AvailableCommand[] }
  | { sessionUpdate: "compaction_update"; compactionId: string; status: "completed" };

export type StopReason = "end_turn" | "max_tokens" | "max_turn_requests" | "refusal" | "cancelled" | "error";

/** Result of `session/prompt`. */
export interface PromptResult {
  stopReason: StopReason;
  /** Why it failed; or, of a prompt with `_meta.steer`, the run under way that was told. */
  _meta?: { error: { message: string } } | { steered: { runId: string } };
}

export type PermissionKind = "allow_once" | "allow_always" | "reject_once" | "reject_always";

export interface PermissionOption {
  optionId: string;
  name: string;
  kind: PermissionKind;
}

export type PermissionOutcome = { outcome: "cancelled" } | { outcome: "selected"; optionId: string };
