import { isRecord, parseJson } from "../../base/json.js";
import type { ToolCallPart } from "../../ports/message.js";
import type { ToolSpec } from "../../ports/tool.js";
import { TOOL_NAMES } from "../names.js";
import { ARGUMENT_RULES, FOREIGN_TOOLS, SPLIT_TOOLS, type ArgumentRules, type ForeignTool } from "./dialect-tables.js";
import { findTypedPatch } from "./typed-patch.js";

type Input = Readonly<Record<string, unknown>>;

/**
 * Converts a call that a model wrote for another agent to a call of an offered tool. Returns the call unchanged if its
 * meaning is not certain. Never throws.
 */
export function translateCall(call: ToolCallPart, tools: readonly ToolSpec[]): ToolCallPart {
  const input = readInput(call);
  const target = input && findTarget(call.name, input, tools);
  if (!target || typeof target === "string") return call;
  const args = translateArguments(target);
  const patchCall = findPatchCall(target.tool, args, tools);
  const { tool, args: finalArgs } = patchCall ?? { tool: target.tool, args };
  if (tool.name === call.name && finalArgs === input) return call;
  return { ...call, name: tool.name, arguments: JSON.stringify(finalArgs) };
}

/** Returns what the model can do instead of a call of another agent's tool. Undefined: the tool is not known. */
export function findAlternative(call: ToolCallPart, tools: readonly ToolSpec[]): string | undefined {
  const target = findTarget(call.name, readInput(call) ?? {}, tools);
  return typeof target === "string" ? target : undefined;
}

interface Target {
  readonly tool: ToolSpec;
  readonly input: Input;
  readonly foreignTool: ForeignTool | undefined;
}

function readInput({ arguments: text }: ToolCallPart): Input | undefined {
  try {
    const input: unknown = text.trim() === "" ? {} : parseJson(text);
    return isRecord(input) ? input : undefined;
  } catch {
    return undefined;
  }
}

/** Finds the tool that does the work of a call. A text: why no tool does. Undefined: the name is unknown. */
function findTarget(calledName: string, input: Input, tools: readonly ToolSpec[]): Target | string | undefined {
  const name = calledName.replace(/^(?:functions|default_api)[.:]/, "");
  const exactTool = tools.find((tool) => tool.name === calledName || tool.name === name);
  if (exactTool) {
    // Some agents take a list of edits in the tool for one edit.
    const multiedit = Array.isArray(input["edits"]) && exactTool.name === "edit" ? find("multiedit", tools) : undefined;
    return { tool: multiedit ?? exactTool, input, foreignTool: undefined };
  }
  const normalizedName = normalize(name);
  const split = Object.hasOwn(SPLIT_TOOLS, normalizedName) ? SPLIT_TOOLS[normalizedName]!(input) : undefined;
  if (typeof split === "string") return split;
  if (split) {
    const tool = find(split.tool, tools);
    return tool && { tool, input: split.input, foreignTool: undefined };
  }
  const foreignTool = Object.hasOwn(FOREIGN_TOOLS, normalizedName) ? FOREIGN_TOOLS[normalizedName] : undefined;
  const tool = find(foreignTool?.tool ?? normalizedName, tools);
  // A third-party tool has only its own name: what its arguments mean is not known.
  if (!tool || (foreignTool && !isBuiltin(tool))) return undefined;
  return { tool, input, foreignTool };
}

/** Finds the only tool with a normalized name. */
function find(normalizedName: string, tools: readonly ToolSpec[]): ToolSpec | undefined {
  const matches = tools.filter((tool) => normalize(tool.name) === normalizedName);
  return matches.length === 1 ? matches[0] : undefined;
}

function normalize(name: string): string {
  return name.toLowerCase().replace(/[_\s-]/g, "");
}

function isBuiltin({ name, origin }: ToolSpec): boolean {
  return origin === undefined && (TOOL_NAMES as readonly string[]).includes(name);
}

/** Converts the arguments by the rules of the tool. Returns the input itself if nothing changes. */
function translateArguments({ tool, input, foreignTool }: Target): Input {
  if (!isBuiltin(tool)) return input;
  const { properties } = tool.inputSchema;
  const knownArguments = isRecord(properties) ? properties : {};
  const rules: ArgumentRules = { ...ARGUMENT_RULES[tool.name], ...foreignTool?.rules };
  const args: Record<string, unknown> = {};
  const foreignKeys: string[] = [];
  for (const [key, value] of Object.entries(input))
    if (Object.hasOwn(rules, key) && rules[key] !== key) foreignKeys.push(key);
    else args[key] = value;
  for (const key of foreignKeys) {
    const replacement = applyRule(rules[key]!, input[key], input);
    const isCertain =
      replacement !== undefined &&
      Object.entries(replacement).every(
        ([name, value]) =>
          Object.hasOwn(knownArguments, name) && (!Object.hasOwn(args, name) || isSame(args[name], value)),
      );
    // An argument that is not converted stays, so that the tool rejects or reports it.
    Object.assign(args, isCertain ? replacement : { [key]: input[key] });
  }
  for (const [key, value] of Object.entries(foreignTool?.defaults ?? {}))
    if (Object.hasOwn(knownArguments, key)) args[key] ??= value;
  return isSame(args, input) ? input : args;
}

function applyRule(rule: ArgumentRules[string], value: unknown, input: Input): Input | undefined {
  if (typeof rule === "function") return rule(value, input);
  return rule === "" || value === undefined || value === null ? {} : { [rule]: value };
}

/** Returns the call of `apply_patch` that a model typed as a command. */
function findPatchCall(
  tool: ToolSpec,
  { command, workdir, background, detached }: Input,
  tools: readonly ToolSpec[],
): { tool: ToolSpec; args: Input } | undefined {
  if (!isBuiltin(tool) || tool.name !== "bash" || typeof command !== "string") return undefined;
  const patchTool = tools.find((candidate) => candidate.name === "apply_patch" && isBuiltin(candidate));
  const isPlain = !background && !detached && (workdir === undefined || typeof workdir === "string");
  const patch = patchTool && isPlain ? findTypedPatch(command, workdir as string | undefined) : undefined;
  return patchTool && patch !== undefined ? { tool: patchTool, args: { input: patch } } : undefined;
}

function isSame(left: unknown, right: unknown): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}
