import { isRecord, parseJson } from "../../base/json.js";
import type { Part, ToolCallPart } from "../../ports/message.js";
import type { Tool } from "../../ports/tool.js";
import { TOOL_NAMES } from "../../tools/names.js";
import type { PreparedCall } from "./prepare.js";

/**
 * Converts calls that a model wrote for another agent to calls of the offered tools. Other calls, and calls whose
 * meaning is not certain, stay unchanged.
 *
 * Runs before an answer is stored, so that rules, hooks, clients and later requests see the tool that runs.
 */
export async function toOfferedCalls(parts: Part[], tools: readonly Tool[]): Promise<Part[]> {
  if (!parts.some((part) => part.type === "tool_call" && !isOffered(part, tools))) return parts;
  const { translateCall } = await import("../../tools/dialects/translate-call.js");
  return parts.map((part) =>
    part.type === "tool_call" && !isOffered(part, tools) ? translateCall(part, tools) : part,
  );
}

/** Adds to the refusal of a call without a tool what the model can do instead, for known tools of other agents. */
export async function withAlternative(preparedCall: PreparedCall, tools: readonly Tool[]): Promise<PreparedCall> {
  if (preparedCall.tool) return preparedCall;
  const { findAlternative } = await import("../../tools/dialects/translate-call.js");
  const alternative = findAlternative(preparedCall.call, tools);
  if (alternative === undefined) return preparedCall;
  return { ...preparedCall, refusal: `${preparedCall.refusal ?? ""} Instead: ${alternative}.` };
}

/** Whether a call names a tool and only arguments that the tool knows, with valid values. */
function isOffered(call: ToolCallPart, tools: readonly Tool[]): boolean {
  const tool = tools.find(({ name }) => name === call.name);
  if (!tool) return false;
  if (tool.origin !== undefined || !(TOOL_NAMES as readonly string[]).includes(tool.name)) return true;
  if (tool.name === "bash" && call.arguments.includes("*** Begin Patch")) return false;
  const { properties } = tool.inputSchema;
  try {
    const input: unknown = parseJson(call.arguments || "{}");
    tool.parse(input);
    return (
      !isRecord(input) || !isRecord(properties) || Object.keys(input).every((key) => Object.hasOwn(properties, key))
    );
  } catch {
    return false;
  }
}
