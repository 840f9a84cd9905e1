import type { ToolKind } from "../../ports/tool-display.js";
import type { ToolOutput } from "../../ports/tool.js";
import { recordChangedFiles } from "../../tools/files/changed-files.js";
import type { PreparedCall } from "./prepare.js";
import type { SubagentCall } from "../context/agent-services.js";
import { toToolDisplay } from "./display.js";

/** Kinds of tools that change the files of their locations. */
const CHANGING_KINDS: readonly ToolKind[] = ["edit", "delete"];

/** Lists the paths that a completed call changed, from its diffs and its locations. Diffs omit large files. */
export function listChangedPaths(
  kind: ToolKind,
  output: ToolOutput,
  { locations: plannedLocations }: PreparedCall,
): string[] {
  const { diff = [], locations = [] } = toToolDisplay(output, Infinity) ?? {};
  const hasChangedFiles = CHANGING_KINDS.includes(kind) && output.failed !== true;
  const changedLocations = locations.length > 0 ? locations : plannedLocations;
  return [...diff, ...(hasChangedFiles ? changedLocations : [])].map(({ path }) => path);
}

/** Records changed files in the state of a call, and in the state of the call that spawned this run as a subagent. */
export function recordChanges(
  paths: readonly string[],
  state: Map<string, unknown>,
  { projectDir, parentCall }: { projectDir: string; parentCall: Pick<SubagentCall, "recordChanges"> | undefined },
): void {
  recordChangedFiles(state, paths, projectDir);
  parentCall?.recordChanges(paths);
}
