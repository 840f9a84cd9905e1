import type { Logger } from "../ports/logger.js";
import type { JsonSchema, ToolSpec } from "../ports/tool.js";
import { cutMiddle } from "../base/cut-text.js";
import { BYTES_PER_TOKEN, bytesOfPrefix, bytesOfTool } from "../models/estimate.js";

/** The part of every request that comes before the messages. */
export interface PromptPrefix {
  system: string;
  tools: readonly ToolSpec[];
  /** Estimated from the bytes. */
  tokens: number;
}

/**
 * Fits system prompt and tools into at most `budget` tokens. With a window of the usual size nothing changes.
 *
 * With a small window, long instructions are cut in the middle first. Then tool descriptions are shortened, and at last
 * the least important tools are dropped. The same input gives the same bytes. Logs a warning if anything was shortened.
 */
export function fitPrefix(system: string, tools: readonly ToolSpec[], budget: number, logger: Logger): PromptPrefix {
  const bytes = Math.max(0, budget) * BYTES_PER_TOKEN;
  let prefix = { system, tools };
  const fits = () => bytesOfPrefix(prefix) <= bytes;
  if (!fits()) prefix = { ...prefix, system: cutMiddle(system, Math.floor(bytes * 0.6)) };
  if (!fits()) prefix = { ...prefix, tools: prefix.tools.map(withoutNotes) };
  if (!fits()) prefix = { ...prefix, tools: prefix.tools.map(shortTool) };
  if (!fits()) prefix = { ...prefix, system: cutMiddle(system, Math.floor(bytes * 0.3)) };
  while (!fits() && prefix.tools.length > 0) {
    const droppedTool = leastImportantTool(prefix.tools);
    prefix = { ...prefix, tools: prefix.tools.filter((tool) => tool !== droppedTool) };
  }
  if (prefix.system !== system || prefix.tools !== tools) {
    const names = new Set(prefix.tools.map((tool) => tool.name));
    logger.warn("context window is small; instructions and tool descriptions shortened", {
      cutInstructions: prefix.system !== system,
      toolsLeftOut: tools.filter((tool) => !names.has(tool.name)).map((tool) => tool.name),
    });
  }
  return { ...prefix, tokens: Math.ceil(bytesOfPrefix(prefix) / BYTES_PER_TOKEN) };
}

/**
 * The tool to drop next: first optional kinds, then a kind with several tools, then any. The largest of a group goes
 * first.
 */
function leastImportantTool(tools: readonly ToolSpec[]): ToolSpec | undefined {
  const optionalTools = tools.filter(({ kind }) => kind === "think" || kind === "fetch" || kind === "delete");
  const repeatedKindTools = tools.filter((tool) =>
    tools.some((otherTool) => otherTool !== tool && otherTool.kind === tool.kind),
  );
  const [candidates = tools] = [optionalTools, repeatedKindTools].filter((group) => group.length > 0);
  return [...candidates].sort((a, b) => bytesOfTool(b) - bytesOfTool(a))[0];
}

function withoutNotes(tool: ToolSpec): ToolSpec {
  return createSpec(tool, tool.description, withoutDescriptions(tool.inputSchema) as JsonSchema);
}

function shortTool(tool: ToolSpec): ToolSpec {
  const firstSentence = /^[\s\S]*?[.!?](?=\s|$)/.exec(tool.description)?.[0] ?? tool.description;
  return createSpec(tool, firstSentence.slice(0, 120), tool.inputSchema);
}

function createSpec(tool: ToolSpec, description: string, inputSchema: JsonSchema): ToolSpec {
  const { name, kind, parallel, needsPermission } = tool;
  return { name, description, inputSchema, kind, parallel, needsPermission };
}

/** Removes descriptions, titles and examples from a schema. A property that is itself named "description" stays. */
function withoutDescriptions(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutDescriptions);
  if (typeof schema !== "object" || schema === null) return schema;
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema as Record<string, unknown>)) {
    if ((key === "description" || key === "title" || key === "examples") && typeof value !== "object") continue;
    result[key] =
      key === "properties" && typeof value === "object" && value !== null
        ? withoutDescriptionsEach(value)
        : withoutDescriptions(value);
  }
  return result;
}

function withoutDescriptionsEach(properties: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, withoutDescriptions(value)]));
}
