import type { Shown } from "./tool-display.js";

export type { Shown } from "./tool-display.js";

/**
 * Data that a provider needs back verbatim (reasoning signatures, encrypted reasoning, item ids).
 * Sent back only to the pair that made it; meaningless to everyone else.
 */
export interface Opaque {
  provider: string;
  model: string;
  /** JSON, as the provider adapter wants it. */
  data: unknown;
}

/** What is said. */
export interface TextPart {
  type: "text";
  text: string;
  /** What a person typed, where it was a command that stands for this text: people are shown it in its place. */
  typed?: string;
  opaque?: Opaque;
}

/** What a model thought before it spoke. */
export interface ReasoningPart {
  type: "reasoning";
  text: string;
  opaque?: Opaque;
}

/** A picture, whole. */
export interface ImagePart {
  type: "image";
  /** `image/png`, `image/jpeg`, `image/gif` or `image/webp`. */
  mediaType: string;
  /** Base64. */
  data: string;
}

/** A file, whole. */
export interface FilePart {
  type: "file";
  mediaType: string;
  filename: string;
  /** Base64. */
  data: string;
}

/** A model's wish to have a tool run. */
export interface ToolCallPart {
  type: "tool_call";
  /** Unique within the session: the model's own id, or one derived from it where the model repeats itself. */
  id: string;
  /** As the model gave it: of no tool, perhaps, and of no form. A provider puts it into the one that it takes. */
  name: string;
  /** JSON text exactly as the model gave it; may be broken JSON. */
  arguments: string;
  opaque?: Opaque;
}

/** A piece of a message. */
export type Part = TextPart | ReasoningPart | ImagePart | FilePart | ToolCallPart;

/** Whose message it is. */
export type Role = "user" | "assistant" | "system" | "tool";

/** What a model sees of a message. */
export interface ModelMessage {
  role: Role;
  /** `user`: text, image, file. `assistant`: reasoning, text, tool_call in the order produced. `tool`: text, image, file. */
  parts: Part[];
  /** Tool messages: the call answered and the tool's name; else `""`. */
  toolCallId: string;
  name: string;
  /** Tool messages: whether the tool failed. */
  failed: boolean;
}

/** A stored message. `seq` orders; clocks never do. */
export interface Message extends ModelMessage {
  id: string;
  sessionId: string;
  /** From 1, unique within a chain, never used again after a revert. Given by the kernel, which holds the lease. */
  seq: number;
  /** ISO 8601 UTC with milliseconds. */
  createdAt: string;
  /** Tool messages: what was shown of the result; left out where that is nothing. */
  shown?: Shown;
  /** False while it is still growing, and for good when a crash, a cancel or a broken connection cut it off. */
  finished: boolean;
}
