import { bytesOf } from "../conversation/messages.js";
import type { ModelMessage } from "../ports/message.js";
import type { ModelRequest } from "../ports/model-provider.js";
import type { ToolSpec } from "../ports/tool.js";

/** English and code average about four bytes per token. Three allows for denser text. */
export const BYTES_PER_TOKEN = 3;
/** Allowance for the JSON that a provider's format adds to a tool. */
const TOOL_OVERHEAD_BYTES = 32;
/** Allowance for the JSON that a provider's format adds to the system prompt. */
const SYSTEM_OVERHEAD_BYTES = 16;

// Safe as a cache key: messages do not change after they become part of a conversation.
const bytesByMessage = new WeakMap<ModelMessage, number>();

/** `bytesOf`, cached per message. */
export function cachedBytesOf(message: ModelMessage): number {
  let bytes = bytesByMessage.get(message);
  if (bytes === undefined) bytesByMessage.set(message, (bytes = bytesOf(message)));
  return bytes;
}

export function bytesOfAll(messages: readonly ModelMessage[]): number {
  let bytes = 0;
  for (const message of messages) bytes += cachedBytesOf(message);
  return bytes;
}

/** Estimated tokens of messages. */
export function estimateTokens(messages: readonly ModelMessage[]): number {
  return Math.ceil(bytesOfAll(messages) / BYTES_PER_TOKEN);
}

interface ToolSize {
  /** The fields that `bytes` includes. */
  readonly spec: Pick<ToolSpec, "name" | "description" | "inputSchema">;
  readonly bytes: number;
}

const sizesByTool = new WeakMap<ToolSpec, ToolSize>();

/** Bytes of a tool's description in a request, cached until one of its fields changes. */
export function bytesOfTool(tool: ToolSpec): number {
  const { name, description, inputSchema } = tool;
  const cachedSize = sizesByTool.get(tool);
  const hasSameTexts = cachedSize?.spec.name === name && cachedSize.spec.description === description;
  if (hasSameTexts && cachedSize.spec.inputSchema === inputSchema) return cachedSize.bytes;
  const spec = { name, description, inputSchema };
  const bytes = Buffer.byteLength(JSON.stringify(spec)) + TOOL_OVERHEAD_BYTES;
  sizesByTool.set(tool, { spec, bytes });
  return bytes;
}

/** Bytes of a request before its messages: the system prompt and the tools. */
export function bytesOfPrefix({ system, tools }: Pick<ModelRequest, "system" | "tools">): number {
  return tools.reduce((sum, tool) => sum + bytesOfTool(tool), Buffer.byteLength(system) + SYSTEM_OVERHEAD_BYTES);
}

/** Estimated tokens of a complete prompt: bytes / `BYTES_PER_TOKEN`, and 1,500 tokens for an image or a file. */
export function estimatePrompt(request: ModelRequest): number {
  return Math.ceil((bytesOfPrefix(request) + bytesOfAll(request.messages)) / BYTES_PER_TOKEN);
}
