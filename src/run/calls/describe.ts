import { parseJson } from "../../base/json.js";
import { abortable, deadline } from "../../base/abort.js";
import type { Diff, Location, Tool, ToolCallPreview, ToolContext, ToolKind } from "../../ports/tool.js";
import { diffsOf } from "./display.js";

/** So long a person who is asked waits for what a tool shows of a call, in ms. */
const PREVIEW_MS = 2_000;

/** A call as it is shown to a person; `input` undefined when its arguments are broken JSON. */
export interface DescribedCall {
  title: string;
  kind: ToolKind;
  locations: readonly Location[];
  /** What it would change, or has changed if it went well, as far as its arguments tell. */
  diff: readonly Diff[];
  /** Names of other tools whose work it does. */
  actsAs?: readonly string[];
  /** Places of which it tells, or takes along, what is there. */
  reads?: readonly Location[];
  input: unknown;
}

/** How a stored call is shown to a person. Never throws, whatever the model sent. */
export function describeCall(tool: Tool | undefined, name: string, args: string, projectDir: string): DescribedCall {
  const shown = { title: name, kind: tool?.kind ?? "other", locations: [], diff: [], input: undefined as unknown };
  try {
    shown.input = args.trim() === "" ? {} : parseJson(args);
    if (tool) return { ...shown, ...describe(tool, tool.parse(shown.input), projectDir) };
  } catch {
    // Shown by its name.
  }
  return shown;
}

/** What a tool says of a call that it would run. Never throws. */
export function describe(
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

/** What a tool shows of a call to a person who is asked, by what is there now. Never rejects: what fails or takes too long shows nothing. */
export async function previewOf(
  tool: Tool,
  args: unknown,
  { projectDir, folders = [], signal: run }: Pick<ToolContext, "projectDir" | "folders" | "signal">,
): Promise<ToolCallPreview> {
  if (typeof tool.preview !== "function") return {};
  const { signal, clear } = deadline(PREVIEW_MS, run);
  try {
    const looked = (async () => tool.preview?.(args, { projectDir, folders, signal }))();
    const { diff, note }: { diff?: unknown; note?: unknown } = (await abortable(looked, signal)) ?? {};
    return { ...(diff !== undefined && { diff: diffsOf(diff) }), ...(typeof note === "string" && { note }) };
  } catch {
    return {};
  } finally {
    clear();
  }
}
