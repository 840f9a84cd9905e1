import { isRecord } from "../../base/json.js";
import type { Diff, Location, ToolDisplay } from "../../ports/tool-display.js";
import type { ToolOutput } from "../../ports/tool.js";

/**
 * The stored display data of a call's output; undefined if there is none. A list larger than `bytes` is omitted
 * completely. Invalid entries, which tools in JavaScript may return, are also omitted.
 */
export function toToolDisplay(output: ToolOutput, bytes: number): ToolDisplay | undefined {
  const { diff, locations }: { diff?: unknown; locations?: unknown } = output;
  const shown = { diff: within(bytes, listOf(diff, diffOf)), locations: within(bytes, listOf(locations, locationOf)) };
  return shown.diff.length + shown.locations.length > 0 ? shown : undefined;
}

/** Reads a list of diffs from an unknown value. Invalid entries, which tools in JavaScript may return, are omitted. */
export function diffsOf(value: unknown): Diff[] {
  return listOf(value, diffOf);
}

function listOf<T>(value: unknown, of: (item: Record<string, unknown>) => T | undefined): T[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((item: unknown) => (isRecord(item) ? (of(item) ?? []) : []));
}

function diffOf({ path, oldText, newText }: Record<string, unknown>): Diff | undefined {
  const isDiff =
    typeof path === "string" && (oldText === null || typeof oldText === "string") && typeof newText === "string";
  return isDiff ? { path, oldText, newText } : undefined;
}

function locationOf({ path, line }: Record<string, unknown>): Location | undefined {
  if (typeof path !== "string") return undefined;
  return Number.isSafeInteger(line) && (line as number) >= 0 ? { path, line: line as number } : { path };
}

function within<T extends object>(bytes: number, list: T[]): T[] {
  let size = 0;
  for (const item of list)
    for (const value of Object.values(item)) size += typeof value === "string" ? Buffer.byteLength(value) : 8;
  return size <= bytes ? list : [];
}
