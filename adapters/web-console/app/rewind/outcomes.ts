import { ApiError, type ApiUndoneFile } from "gantry/client";
import { escapeInvisible } from "../content/escape.js";

const OUTCOME_LABELS: Readonly<Record<ApiUndoneFile["outcome"], string>> = {
  restored: "Restored",
  recreated: "Created again",
  removed: "Removed",
  conflict: "Changed outside of the session",
  lost: "Not restored",
  failed: "Not restored",
};

/** Whether a file prevents an undo without `force`. */
export function isBlocked({ outcome }: ApiUndoneFile): boolean {
  return outcome === "conflict" || outcome === "lost" || outcome === "failed";
}

/** The outcome for one file: the file, and the reason if it was not restored. */
export function describeOutcome({ path, outcome, reason }: ApiUndoneFile): string {
  const details = reason === "" ? "" : ` (${escapeInvisible(reason)})`;
  return `${OUTCOME_LABELS[outcome]}: ${escapeInvisible(path)}${details}`;
}

/** All files of an undo that a conflict prevented; undefined for other errors. */
export function readConflictFiles(error: unknown): readonly ApiUndoneFile[] | undefined {
  if (!(error instanceof ApiError) || error.code !== "undo_conflict") return undefined;
  const { files } = (error.body ?? {}) as { files?: unknown };
  return Array.isArray(files) ? (files as ApiUndoneFile[]) : [];
}

/** Descriptions of the files that prevented an undo. Empty for other errors. */
export function readConflicts(error: unknown): readonly string[] {
  return (readConflictFiles(error) ?? []).filter(isBlocked).map(describeOutcome);
}
