import { bytesOf } from "../conversation/messages.js";
import type { ModelMessage } from "../ports/message.js";
import type { ModelRequest } from "../ports/model-provider.js";
import type { ToolSpec } from "../ports/tool.js";

/** English and code average about four bytes per token. Three allows for denser text. */
export const BYTES_PER_TOKEN = 3;

// Safe as a cache key: messages do not change after they become part of a conversation.
const sizes = new WeakMap<ModelMessage, number>();

/** `bytesOf`, cached per message. */
export function sizeOf(message: ModelMessage): number {
  let size = sizes.get(message);
  if (size === undefined) sizes.set(message, (size = bytesOf(message)));
  return size;
}

export function bytesOfAll(messages: readonly ModelMessage[]): number {
  let bytes = 0;
  for (const message of messages) bytes += sizeOf(message);
  return bytes;
}

/** Estimated tokens of messages. */
export function tokensOf(messages: readonly ModelMessage[]): number {
  return Math.ceil(bytesOfAll(messages) / BYTES_PER_TOKEN);
}

interface ToolSize {
  /** The measured fields. */
  readonly told: Pick<ToolSpec, "name" | "description" | "inputSchema">;
  readonly bytes: number;
}

const toolSizes = new WeakMap<ToolSpec, ToolSize>();

/** Bytes of a tool's description in a request, cached until one of its fields changes. */
export function toolBytes(tool: ToolSpec): number {
  const { name, description, inputSchema } = tool;
  const known = toolSizes.get(tool);
  const same = known?.told.name === name && known.told.description === description;
  if (same && known.told.inputSchema === inputSchema) return known.bytes;
  const told = { name, description, inputSchema };
  const bytes = Buffer.byteLength(JSON.stringify(told)) + 32;
  toolSizes.set(tool, { told, bytes });
  return bytes;
}

/** Bytes of a request before its messages: the system prompt and the tools. */
export function frameBytes({ system, tools }: Pick<ModelRequest, "system" | "tools">): number {
  return tools.reduce((sum, tool) => sum + toolBytes(tool), Buffer.byteLength(system) + 16);
}

/** Estimated tokens of a complete prompt: bytes / 3, and 1,500 for an image or a file. */
export function estimatePrompt(request: ModelRequest): number {
  return Math.ceil((frameBytes(request) + bytesOfAll(request.messages)) / BYTES_PER_TOKEN);
}
