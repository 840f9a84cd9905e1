import type { Logger } from "../ports/logger.js";
import type { JsonSchema, ToolSpec } from "../ports/tool.js";
import { cutMiddle } from "../base/cut-text.js";
import { BYTES_PER_TOKEN, frameBytes, toolBytes } from "../models/estimate.js";

/** The part of every request that comes before the messages. */
export interface Frame {
  system: string;
  tools: readonly ToolSpec[];
  /** Estimated. */
  tokens: number;
}

/**
 * System prompt and tools in at most `budget` tokens. In a window of the usual size nothing changes; in a small one long
 * instructions are cut in the middle, then tools are described in short, then those least missed are left out.
 * The same input gives the same bytes.
 */
export function fitFrame(system: string, tools: readonly ToolSpec[], budget: number, logger: Logger): Frame {
  const bytes = Math.max(0, budget) * BYTES_PER_TOKEN;
  let frame = { system, tools };
  const fits = () => frameBytes(frame) <= bytes;
  if (!fits()) frame = { ...frame, system: cutMiddle(system, Math.floor(bytes * 0.6)) };
  if (!fits()) frame = { ...frame, tools: frame.tools.map(withoutNotes) };
  if (!fits()) frame = { ...frame, tools: frame.tools.map(inShort) };
  if (!fits()) frame = { ...frame, system: cutMiddle(system, Math.floor(bytes * 0.3)) };
  while (!fits() && frame.tools.length > 0) {
    const spared = leastMissed(frame.tools);
    frame = { ...frame, tools: frame.tools.filter((tool) => tool !== spared) };
  }
  if (frame.system !== system || frame.tools !== tools) {
    const names = new Set(frame.tools.map((tool) => tool.name));
    logger.warn("the model's context window is small; instructions and tools are told in short", {
      cutInstructions: frame.system !== system,
      toolsLeftOut: tools.filter((tool) => !names.has(tool.name)).map((tool) => tool.name),
    });
  }
  return { ...frame, tokens: Math.ceil(frameBytes(frame) / BYTES_PER_TOKEN) };
}

/** What an agent can do without; then the largest of a kind that has others; then the largest. */
function leastMissed(tools: readonly ToolSpec[]): ToolSpec | undefined {
  const luxuries = tools.filter(({ kind }) => kind === "think" || kind === "fetch" || kind === "delete");
  const doubled = tools.filter((tool) => tools.some((other) => other !== tool && other.kind === tool.kind));
  const [candidates = tools] = [luxuries, doubled].filter((some) => some.length > 0);
  return [...candidates].sort((a, b) => toolBytes(b) - toolBytes(a))[0];
}

function withoutNotes(tool: ToolSpec): ToolSpec {
  return spec(tool, tool.description, bare(tool.inputSchema) as JsonSchema);
}

function inShort(tool: ToolSpec): ToolSpec {
  const sentence = /^[\s\S]*?[.!?](?=\s|$)/.exec(tool.description)?.[0] ?? tool.description;
  return spec(tool, sentence.slice(0, 120), tool.inputSchema);
}

function spec(tool: ToolSpec, description: string, inputSchema: JsonSchema): ToolSpec {
  const { name, kind, parallel, needsPermission } = tool;
  return { name, description, inputSchema, kind, parallel, needsPermission };
}

/** A schema without what is said about its values; a property that is itself called "description" stays. */
function bare(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(bare);
  if (typeof schema !== "object" || schema === null) return schema;
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema as Record<string, unknown>)) {
    if ((key === "description" || key === "title" || key === "examples") && typeof value !== "object") continue;
    result[key] = key === "properties" && typeof value === "object" && value !== null ? bareEach(value) : bare(value);
  }
  return result;
}

function bareEach(properties: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, bare(value)]));
}
