import { parseJson } from "../../base/json.js";
import { ToolInputError } from "../../ports/errors.js";
import type { ToolCallPart } from "../../ports/message.js";
import type { Diff, Location } from "../../ports/tool-display.js";
import type { Tool, ToolCall } from "../../ports/tool.js";
import { describe } from "./describe.js";
import type { RunContext } from "../context/run-context.js";

/** Maximum quoted characters of an unknown tool name. */
const MAX_NAME_CHARACTERS = 100;

/** A call with parsed arguments, or with the reason why it cannot run. */
export interface Prepared {
  call: ToolCallPart;
  tool: Tool | undefined;
  args: unknown;
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
export function prepare(call: ToolCallPart, run: RunContext): Prepared {
  const tool = run.tools.find(({ name }) => name === call.name);
  const base = { call, tool, args: undefined, input: undefined, title: call.name, locations: [], diff: [] };
  if (!tool) {
    const names = run.tools.map(({ name }) => name).join(", ");
    // The model may invent any name, so quote it as JSON and limit its length.
    const called = call.name.length > MAX_NAME_CHARACTERS ? `${call.name.slice(0, MAX_NAME_CHARACTERS)}…` : call.name;
    const refusal = `There is no tool ${JSON.stringify(called)}. Use one of: ${names || "(none)"}.`;
    return { ...base, refusal };
  }
  let input: unknown;
  try {
    input = call.arguments.trim() === "" ? {} : parseJson(call.arguments);
  } catch (error) {
    return {
      ...base,
      refusal: `The arguments of ${call.name} are not valid JSON (${textOf(error)}). Send the call again with valid JSON.`,
    };
  }
  try {
    const args: unknown = tool.parse(input);
    const shown = describe(tool, args, run.projectDir);
    return { ...base, args, input, ...shown, refusal: undefined };
  } catch (error) {
    if (!(error instanceof ToolInputError)) run.logger.debug("tool rejected its input", { tool: call.name, error });
    return { ...base, input, refusal: `${call.name}: ${textOf(error)}` };
  }
}

/** The call as permissions, hooks and permission requests see it. */
export function readCall(
  { call, input, title, locations, diff, actsAs, reads }: Prepared,
  tool: Tool,
  run: RunContext,
): ToolCall {
  const { id: runId, sessionId, projectDir } = run;
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

/** The text of an error for the model. */
export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
