import type { ToolKind, ToolOutput } from "../../ports/tool.js";
import { recordChangedFiles } from "../../tools/files/changed-files.js";
import type { Prepared } from "./prepare.js";
import type { RunContext } from "../context/run-context.js";
import { toToolDisplay } from "./display.js";

/** Kinds of tools that change the files of their locations. */
const CHANGING: readonly ToolKind[] = ["edit", "delete"];

/** Paths that a completed call changed: the paths of its diffs and of its locations. Diffs omit large files. */
export function changedBy(kind: ToolKind, output: ToolOutput, { locations: planned }: Prepared): string[] {
  const { diff = [], locations = [] } = toToolDisplay(output, Infinity) ?? {};
  const isChanged = CHANGING.includes(kind) && output.failed !== true;
  const named = locations.length > 0 ? locations : planned;
  return [...diff, ...(isChanged ? named : [])].map(({ path }) => path);
}

/** Records changed files in the state of a call, and in the state of the call that spawned this run as a subagent. */
export function recordChanges(
  paths: readonly string[],
  state: Map<string, unknown>,
  { projectDir, spawned }: Pick<RunContext, "projectDir" | "spawned">,
): void {
  recordChangedFiles(state, paths, projectDir);
  spawned?.recordChanges(paths);
}
