import { parseJson } from "../base/json.js";
import type { Diff, Location, Tool, ToolKind } from "../ports/tool.js";

/** A call as it is shown to a person; `input` undefined when its arguments are broken JSON. */
export interface DescribedCall {
  title: string;
  kind: ToolKind;
  locations: readonly Location[];
  /** What it would change, or has changed if it went well, as far as its arguments tell. */
  diff: readonly Diff[];
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
): Pick<DescribedCall, "title" | "locations" | "diff"> {
  try {
    const { title, locations, diff = [] } = tool.describe(args, projectDir);
    return { title, locations, diff };
  } catch {
    return { title: tool.name, locations: [], diff: [] };
  }
}
