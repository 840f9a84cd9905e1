import { isRecord } from "../../base/json.js";
import type { Diff, Location, ToolDisplay, ToolKind } from "../../ports/tool-display.js";
import type { ToolOutput } from "../../ports/tool.js";
import { recordChangedFiles } from "../../tools/files/changed-files.js";
import type { SubagentCall } from "../context/agent-services.js";

/**
 * Returns the stored display data of a call's output; undefined if there is none. Omits a list larger than `maxBytes`
 * completely. Invalid entries, which tools in JavaScript may return, are also omitted.
 */
export function toToolDisplay(output: ToolOutput, maxBytes: number): ToolDisplay | undefined {
  const { diff, locations }: { diff?: unknown; locations?: unknown } = output;
  const display = {
    diff: omitIfLarger(maxBytes, readList(diff, readDiff)),
    locations: omitIfLarger(maxBytes, readList(locations, readLocation)),
  };
  return display.diff.length + display.locations.length > 0 ? display : undefined;
}

/** Reads a list of diffs from an unknown value. Invalid entries, which tools in JavaScript may return, are omitted. */
export function readDiffs(value: unknown): Diff[] {
  return readList(value, readDiff);
}

function readList<T>(value: unknown, readItem: (item: Record<string, unknown>) => T | undefined): T[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((item: unknown) => (isRecord(item) ? (readItem(item) ?? []) : []));
}

function readDiff({ path, oldText, newText }: Record<string, unknown>): Diff | undefined {
  const isDiff =
    typeof path === "string" && (oldText === null || typeof oldText === "string") && typeof newText === "string";
  return isDiff ? { path, oldText, newText } : undefined;
}

function readLocation({ path, line }: Record<string, unknown>): Location | undefined {
  if (typeof path !== "string") return undefined;
  return Number.isSafeInteger(line) && (line as number) >= 0 ? { path, line: line as number } : { path };
}

function omitIfLarger<T extends object>(maxBytes: number, list: T[]): T[] {
  let bytes = 0;
  // A number counts as 8 bytes.
  for (const item of list)
    for (const value of Object.values(item)) bytes += typeof value === "string" ? Buffer.byteLength(value) : 8;
  return bytes <= maxBytes ? list : [];
}

const CHANGING_KINDS: readonly ToolKind[] = ["edit", "delete"];

/** Lists the paths that a completed call changed, from its diffs and its locations. Diffs omit large files. */
export function listChangedPaths(kind: ToolKind, output: ToolOutput, plannedLocations: readonly Location[]): string[] {
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
