import { abortable, createDeadline } from "../../base/abort.js";
import { parseJson } from "../../base/json.js";
import { ToolInputError } from "../../ports/errors.js";
import type { Logger } from "../../ports/logger.js";
import type { ToolCallPart } from "../../ports/message.js";
import type { Diff, Location, ToolKind } from "../../ports/tool-display.js";
import type { Tool, ToolCall, ToolCallPreview, ToolContext } from "../../ports/tool.js";
import { readDiffs } from "./display.js";

/** Maximum quoted characters of an unknown tool name. */
const MAX_NAME_CHARACTERS = 100;
/** Maximum tools that the refusal of an unknown name lists. If there are more, it lists those without an origin. */
const MAX_LISTED_TOOLS = 64;
/** Maximum wait of a permission request for the preview of a tool, in ms. */
const PREVIEW_TIMEOUT_MS = 2_000;

/** A call for display. `input` is undefined if its arguments are invalid JSON. */
export interface DescribedCall {
  title: string;
  kind: ToolKind;
  locations: readonly Location[];
  /**
   * Changes that the call would make, as far as its arguments show them. After a successful call, the changes that it
   * made.
   */
  diff: readonly Diff[];
  /** Names of other tools whose work the call does. */
  actsAs?: readonly string[];
  /** Paths whose contents the call shows or copies. */
  reads?: readonly Location[];
  input: unknown;
}

/** A call with parsed arguments, or with the reason why it cannot run. */
export interface PreparedCall extends DescribedCall {
  call: ToolCallPart;
  tool: Tool | undefined;
  /** The arguments as parsed by the tool. Undefined if the call cannot run. */
  args: unknown;
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
  const base = { call, tool, args: undefined, ...createDescription(tool, call.name) };
  if (!tool) {
    // Hundreds of tools of MCP servers are in the system prompt instead.
    const isShort = tools.length <= MAX_LISTED_TOOLS;
    const names = tools.flatMap(({ name, origin }) => (isShort || origin === undefined ? name : [])).join(", ");
    // The model may invent any name, so quote it as JSON and limit its length.
    const shownName =
      call.name.length > MAX_NAME_CHARACTERS ? `${call.name.slice(0, MAX_NAME_CHARACTERS)}…` : call.name;
    const refusal = `Tool ${JSON.stringify(shownName)} does not exist. Use one of: ${names || "(none)"}.`;
    return { ...base, refusal };
  }
  let input: unknown;
  try {
    input = parseArguments(call.arguments);
  } catch (error) {
    return {
      ...base,
      refusal: `The arguments of ${call.name} are not valid JSON (${formatError(error)}). Send the call again with valid JSON.`,
    };
  }
  try {
    const args: unknown = tool.parse(input);
    return { ...base, args, input, ...describeWithTool(tool, args, projectDir), refusal: undefined };
  } catch (error) {
    if (!(error instanceof ToolInputError)) logger.debug("tool rejected its input", { tool: call.name, error });
    return { ...base, input, refusal: `${call.name}: ${formatError(error)}` };
  }
}

/** Describes a stored call for display. Never throws, whatever the model sent. */
export function describeCall(tool: Tool | undefined, name: string, args: string, projectDir: string): DescribedCall {
  const description = createDescription(tool, name);
  try {
    description.input = parseArguments(args);
    if (tool) return { ...description, ...describeWithTool(tool, tool.parse(description.input), projectDir) };
  } catch {
    // Fall back to the name.
  }
  return description;
}

/** Describes a call whose arguments are unknown. */
function createDescription(tool: Tool | undefined, name: string): DescribedCall {
  return { title: name, kind: tool?.kind ?? "other", locations: [], diff: [], input: undefined };
}

function parseArguments(text: string): unknown {
  return text.trim() === "" ? {} : parseJson(text);
}

/** Describes a call before it runs. Never throws. */
function describeWithTool(tool: Tool, args: unknown, projectDir: string): Partial<DescribedCall> {
  try {
    // Tools of plugins in JavaScript may leave out required fields.
    const { title = tool.name, locations = [], diff = [], actsAs, reads } = tool.describe(args, projectDir);
    return { title, locations, diff, ...(actsAs && { actsAs }), ...(reads && { reads }) };
  } catch {
    return { title: tool.name };
  }
}

/**
 * Returns a tool's preview of a call for a permission request. Never rejects: a failure or a timeout gives an empty
 * preview.
 */
export async function previewCall(
  tool: Tool,
  args: unknown,
  { projectDir, folders = [], signal: runSignal }: Pick<ToolContext, "projectDir" | "folders" | "signal">,
): Promise<ToolCallPreview> {
  if (typeof tool.preview !== "function") return {};
  const { signal, clear } = createDeadline(PREVIEW_TIMEOUT_MS, runSignal);
  try {
    const previewPromise = (async () => tool.preview?.(args, { projectDir, folders, signal }))();
    const { diff, note }: { diff?: unknown; note?: unknown } = (await abortable(previewPromise, signal)) ?? {};
    return { ...(diff !== undefined && { diff: readDiffs(diff) }), ...(typeof note === "string" && { note }) };
  } catch {
    return {};
  } finally {
    clear();
  }
}

/** Converts a prepared call to the form for permissions, hooks and permission requests. */
export function toToolCall(
  { call, input, title, locations, diff, actsAs, reads }: PreparedCall,
  tool: Tool,
  { id: runId, sessionId, projectDir }: { id: string; sessionId: string; projectDir: string },
): ToolCall {
  const description = { title, locations, diff, ...(actsAs && { actsAs }), ...(reads && { reads }) };
  return { runId, sessionId, callId: call.id, projectDir, tool, input, ...description };
}

export function formatError(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
