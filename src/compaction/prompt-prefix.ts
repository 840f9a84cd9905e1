import type { Logger } from "../ports/logger.js";
import type { JsonSchema, ToolSpec } from "../ports/tool.js";
import { cutMiddle } from "../base/cut-text.js";
import { bytesOfPrefix, bytesOfTool } from "../models/estimate.js";

/** Maximum characters of a shortened tool description. */
const MAX_DESCRIPTION_CHARACTERS = 120;
/** Maximum share of the budget for the instructions: first, and after the tools were shortened. */
const INSTRUCTION_SHARES = { initial: 0.6, reduced: 0.3 };

/**
 * Shortens system prompt and tools, which a small window does not fit, to at most `maxBytes` bytes. Logs a warning.
 *
 * Long instructions are cut in the middle first. Then tool descriptions are shortened, and at last the least important
 * tools are dropped. The same input gives the same bytes.
 */
export function shortenPrefix(
  system: string,
  tools: readonly ToolSpec[],
  maxBytes: number,
  logger: Logger,
): { system: string; tools: readonly ToolSpec[]; bytes: number } {
  let prefix = { system: cutMiddle(system, Math.floor(maxBytes * INSTRUCTION_SHARES.initial)), tools };
  const fits = () => bytesOfPrefix(prefix) <= maxBytes;
  if (!fits()) prefix = { ...prefix, tools: prefix.tools.map(removeSchemaNotes) };
  if (!fits()) prefix = { ...prefix, tools: prefix.tools.map(shortenTool) };
  if (!fits()) prefix = { ...prefix, system: cutMiddle(system, Math.floor(maxBytes * INSTRUCTION_SHARES.reduced)) };
  while (!fits() && prefix.tools.length > 0) {
    const droppedTool = findLeastImportantTool(prefix.tools);
    prefix = { ...prefix, tools: prefix.tools.filter((tool) => tool !== droppedTool) };
  }
  const names = new Set(prefix.tools.map((tool) => tool.name));
  logger.warn("context window is small; instructions and tool descriptions shortened", {
    cutInstructions: prefix.system !== system,
    toolsLeftOut: tools.filter((tool) => !names.has(tool.name)).map((tool) => tool.name),
  });
  return { ...prefix, bytes: bytesOfPrefix(prefix) };
}

/**
 * Returns the tool to drop next: first a tool of an optional kind, then a tool whose kind other tools have too, then
 * any tool. In each group the largest tool goes first. Undefined without tools.
 */
function findLeastImportantTool(tools: readonly ToolSpec[]): ToolSpec | undefined {
  const optionalTools = tools.filter(({ kind }) => kind === "think" || kind === "fetch" || kind === "delete");
  const repeatedKindTools = tools.filter((tool) =>
    tools.some((otherTool) => otherTool !== tool && otherTool.kind === tool.kind),
  );
  const [candidates = tools] = [optionalTools, repeatedKindTools].filter((group) => group.length > 0);
  return [...candidates].sort((a, b) => bytesOfTool(b) - bytesOfTool(a))[0];
}

function removeSchemaNotes(tool: ToolSpec): ToolSpec {
  return createSpec(tool, tool.description, removeDescriptions(tool.inputSchema) as JsonSchema);
}

function shortenTool(tool: ToolSpec): ToolSpec {
  const firstSentence = /^[\s\S]*?[.!?](?=\s|$)/.exec(tool.description)?.[0] ?? tool.description;
  return createSpec(tool, firstSentence.slice(0, MAX_DESCRIPTION_CHARACTERS), tool.inputSchema);
}

function createSpec(tool: ToolSpec, description: string, inputSchema: JsonSchema): ToolSpec {
  const { name, kind, parallel, needsPermission } = tool;
  return { name, description, inputSchema, kind, parallel, needsPermission };
}

/** Removes descriptions, titles and examples from a schema. A property that is itself named "description" stays. */
function removeDescriptions(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(removeDescriptions);
  if (typeof schema !== "object" || schema === null) return schema;
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema as Record<string, unknown>)) {
    if ((key === "description" || key === "title" || key === "examples") && typeof value !== "object") continue;
    result[key] =
      key === "properties" && typeof value === "object" && value !== null
        ? removePropertyDescriptions(value)
        : removeDescriptions(value);
  }
  return result;
}

function removePropertyDescriptions(properties: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, removeDescriptions(value)]));
}
