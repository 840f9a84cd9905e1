import type { ToolKind, ToolOutput } from "../../ports/tool.js";
import { recordChangedFiles } from "../../tools/files/changed-files.js";
import type { Prepared } from "./prepare.js";
import type { RunContext } from "../context/run-context.js";
import { shownOf } from "./display.js";

/** Kinds of tools that change the files of their locations. */
const CHANGING: readonly ToolKind[] = ["edit", "delete"];

/** Paths that a finished call changed: those of its diffs, which leave out large files, and of its locations. */
export function changedBy(kind: ToolKind, output: ToolOutput, { locations: planned }: Prepared): string[] {
  const { diff = [], locations = [] } = shownOf(output, Infinity) ?? {};
  const isChanged = CHANGING.includes(kind) && output.failed !== true;
  const named = locations.length > 0 ? locations : planned;
  return [...diff, ...(isChanged ? named : [])].map(({ path }) => path);
}

/** Record changed files in the state of a call, and of the call that spawned its run as a subagent. */
export function recordChanges(
  paths: readonly string[],
  state: Map<string, unknown>,
  { projectDir, spawned }: Pick<RunContext, "projectDir" | "spawned">,
): void {
  recordChangedFiles(state, paths, projectDir);
  spawned?.recordChanges(paths);
}
