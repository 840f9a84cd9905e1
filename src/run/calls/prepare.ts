import { parseJson } from "../../base/json.js";
import { ToolInputError } from "../../ports/errors.js";
import type { ToolCallPart } from "../../ports/message.js";
import type { Diff, Location } from "../../ports/tool-display.js";
import type { Tool, ToolCall } from "../../ports/tool.js";
import { describe } from "./describe.js";
import type { RunContext } from "../context/run-context.js";

/** So many characters of an unknown name are quoted. */
const LONGEST_NAME = 100;

/** A call whose arguments were read, or why it cannot run. */
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
  /** Why it cannot run. */
  refusal: string | undefined;
}

/** Read a model's call. Never throws: what is wrong with it is told to the model. */
export function prepare(call: ToolCallPart, run: RunContext): Prepared {
  const tool = run.tools.find(({ name }) => name === call.name);
  const base = { call, tool, args: undefined, input: undefined, title: call.name, locations: [], diff: [] };
  if (!tool) {
    const names = run.tools.map(({ name }) => name).join(", ");
    // A name that a model made up may be anything: quoted as JSON, and not without end.
    const called = call.name.length > LONGEST_NAME ? `${call.name.slice(0, LONGEST_NAME)}…` : call.name;
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
    if (!(error instanceof ToolInputError)) run.logger.debug("a tool refused its input", { tool: call.name, error });
    return { ...base, input, refusal: `${call.name}: ${textOf(error)}` };
  }
}

/** The call as permissions, hooks and questions see it. */
export function callOf(
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

/** What the model is told of an error. */
export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
