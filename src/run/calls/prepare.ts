import { parseJson } from "../../base/json.js";
import { ToolInputError } from "../../ports/errors.js";
import type { Logger } from "../../ports/logger.js";
import type { ToolCallPart } from "../../ports/message.js";
import type { Diff, Location } from "../../ports/tool-display.js";
import type { Tool, ToolCall } from "../../ports/tool.js";
import { describeWithTool } from "./describe.js";

/** Maximum quoted characters of an unknown tool name. */
const MAX_NAME_CHARACTERS = 100;

/** A call with parsed arguments, or with the reason why it cannot run. */
export interface PreparedCall {
  call: ToolCallPart;
  tool: Tool | undefined;
  /** The arguments as parsed by the tool. Undefined if the call cannot run. */
  args: unknown;
  /** The arguments as parsed JSON. Undefined if they are invalid JSON. */
  input: unknown;
  title: string;
  locations: readonly Location[];
  diff: readonly Diff[];
  actsAs?: readonly string[];
  reads?: readonly Location[];
  /** Why the call cannot run, as text for the model. Undefined: it can run. */
  refusal: string | undefined;
}

/** Parses a model's call. Never throws: errors are reported to the model. */
export function prepareCall(
  call: ToolCallPart,
  tools: readonly Tool[],
  projectDir: string,
  logger: Logger,
): PreparedCall {
  const tool = tools.find(({ name }) => name === call.name);
  const base = { call, tool, args: undefined, input: undefined, title: call.name, locations: [], diff: [] };
  if (!tool) {
    const names = tools.map(({ name }) => name).join(", ");
    // The model may invent any name, so quote it as JSON and limit its length.
    const shownName =
      call.name.length > MAX_NAME_CHARACTERS ? `${call.name.slice(0, MAX_NAME_CHARACTERS)}…` : call.name;
    const refusal = `Tool ${JSON.stringify(shownName)} does not exist. Use one of: ${names || "(none)"}.`;
    return { ...base, refusal };
  }
  let input: unknown;
  try {
    input = call.arguments.trim() === "" ? {} : parseJson(call.arguments);
  } catch (error) {
    return {
      ...base,
      refusal: `The arguments of ${call.name} are not valid JSON (${formatError(error)}). Send the call again with valid JSON.`,
    };
  }
  try {
    const args: unknown = tool.parse(input);
    const description = describeWithTool(tool, args, projectDir);
    return { ...base, args, input, ...description, refusal: undefined };
  } catch (error) {
    if (!(error instanceof ToolInputError)) logger.debug("tool rejected its input", { tool: call.name, error });
    return { ...base, input, refusal: `${call.name}: ${formatError(error)}` };
  }
}

/** Converts a prepared call to the form for permissions, hooks and permission requests. */
export function toToolCall(
  { call, input, title, locations, diff, actsAs, reads }: PreparedCall,
  tool: Tool,
  { id: runId, sessionId, projectDir }: { id: string; sessionId: string; projectDir: string },
): ToolCall {
  return {
    runId,
    sessionId,
    callId: call.id,
    projectDir,
    tool,
    input,
    title,
    locations,
    diff,
    ...(actsAs && { actsAs }),
    ...(reads && { reads }),
  };
}

/** Formats an error for the model. */
export function formatError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
