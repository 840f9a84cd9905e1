import { parseJson } from "../../base/json.js";
import { abortable, createDeadline } from "../../base/abort.js";
import type { Diff, Location, ToolKind } from "../../ports/tool-display.js";
import type { Tool, ToolCallPreview, ToolContext } from "../../ports/tool.js";
import { readDiffs } from "./display.js";

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

/** Describes a stored call for display. Never throws, whatever the model sent. */
export function describeCall(tool: Tool | undefined, name: string, args: string, projectDir: string): DescribedCall {
  const description = {
    title: name,
    kind: tool?.kind ?? "other",
    locations: [],
    diff: [],
    input: undefined as unknown,
  };
  try {
    description.input = args.trim() === "" ? {} : parseJson(args);
    if (tool) return { ...description, ...describeWithTool(tool, tool.parse(description.input), projectDir) };
  } catch {
    // Fall back to the name.
  }
  return description;
}

/** Describes a call before it runs. Never throws. */
export function describeWithTool(
  tool: Tool,
  args: unknown,
  projectDir: string,
): Pick<DescribedCall, "title" | "locations" | "diff" | "actsAs" | "reads"> {
  try {
    const { title, locations, diff = [], actsAs, reads } = tool.describe(args, projectDir);
    return { title, locations, diff, ...(actsAs && { actsAs }), ...(reads && { reads }) };
  } catch {
    return { title: tool.name, locations: [], diff: [] };
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
