import type { ToolDisplay } from "./tool-display.js";

export type { ToolDisplay } from "./tool-display.js";

/**
 * Data that a provider needs back unchanged (reasoning signatures, encrypted reasoning, item ids). The data is sent
 * back only to the provider and model that produced it, and has no meaning for other providers.
 */
export interface OpaqueData {
  provider: string;
  model: string;
  /** JSON in the format of the provider adapter. */
  data: unknown;
}

/** Text content. */
export interface TextPart {
  type: "text";
  text: string;
  /** The text that a person typed, if a command replaced it with `text`. Clients show it instead of `text`. */
  originalText?: string;
  opaque?: OpaqueData;
}

/** Reasoning that a model produced before its answer. */
export interface ReasoningPart {
  type: "reasoning";
  text: string;
  opaque?: OpaqueData;
}

/** An inline image. */
export interface ImagePart {
  type: "image";
  /** `image/png`, `image/jpeg`, `image/gif` or `image/webp`. */
  mediaType: string;
  /** Base64. */
  data: string;
}

/** An inline file. */
export interface FilePart {
  type: "file";
  mediaType: string;
  filename: string;
  /** Base64. */
  data: string;
}

/** A tool call requested by a model. */
export interface ToolCallPart {
  type: "tool_call";
  /** Unique within the session: the model's own id, or an id derived from it if the model repeats ids. */
  id: string;
  /**
   * Name as the model sent it: possibly malformed, or the name of no tool. A provider converts it to a valid name. In a
   * stored message, a call for another agent has the name and the arguments of the tool that runs.
   */
  name: string;
  /** JSON text as the model sent it; may be invalid JSON. */
  arguments: string;
  opaque?: OpaqueData;
}

/** A part of a message. */
export type Part = TextPart | ReasoningPart | ImagePart | FilePart | ToolCallPart;

/** Author of a message. */
export type Role = "user" | "assistant" | "system" | "tool";

/** The part of a message that a model sees. */
export interface ModelMessage {
  role: Role;
  /**
   * `user`: text, image, file. `assistant`: reasoning, text and tool_call, in the order of production. `tool`: text,
   * image, file.
   */
  parts: Part[];
  /** For tool messages: id and tool name of the answered call; otherwise `""`. */
  toolCallId: string;
  name: string;
  /** For tool messages: whether the tool failed. */
  failed: boolean;
}

/** A stored message. Messages are ordered by `seq`, never by time. */
export interface Message extends ModelMessage {
  id: string;
  sessionId: string;
  /**
   * Starts at 1; unique within a chain and never reused after a revert. Assigned by the kernel, which holds the lease.
   */
  seq: number;
  /** ISO 8601 UTC with milliseconds. */
  createdAt: string;
  /** For tool messages: the result as shown to people. Undefined if there is nothing to show. */
  shown?: ToolDisplay;
  /** False while the message grows. Stays false if a crash, a cancel or a broken connection interrupted it. */
  finished: boolean;
}
