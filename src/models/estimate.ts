import { bytesOf } from "../conversation/messages.js";
import type { ModelMessage } from "../ports/message.js";
import type { ModelRequest } from "../ports/model-provider.js";
import type { ToolSpec } from "../ports/tool.js";

/** English and code take about four bytes a token; three leaves room for denser text. */
export const BYTES_PER_TOKEN = 3;

// Messages are never changed once they are part of a conversation.
const sizes = new WeakMap<ModelMessage, number>();

/** `bytesOf`, remembered. */
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

/** Tokens of messages, estimated. */
export function tokensOf(messages: readonly ModelMessage[]): number {
  return Math.ceil(bytesOfAll(messages) / BYTES_PER_TOKEN);
}

interface ToolSize {
  /** What was measured. */
  readonly told: Pick<ToolSpec, "name" | "description" | "inputSchema">;
  readonly bytes: number;
}

const toolSizes = new WeakMap<ToolSpec, ToolSize>();

/** Bytes of a tool as a provider is told of it, remembered for as long as it tells the same. */
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

/** Bytes of what comes before the messages of a request. */
export function frameBytes({ system, tools }: Pick<ModelRequest, "system" | "tools">): number {
  return tools.reduce((sum, tool) => sum + toolBytes(tool), Buffer.byteLength(system) + 16);
}

/** Tokens of a whole prompt, estimated: bytes / 3, and 1,500 for an image or a file. */
export function estimatePrompt(request: ModelRequest): number {
  return Math.ceil((frameBytes(request) + bytesOfAll(request.messages)) / BYTES_PER_TOKEN);
}
