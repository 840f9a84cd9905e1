import { relativeTo } from "./files.js";

/**
 * Prefix of the state keys for changed files. One key per file, so that a call stores only its own changes. The value
 * is the time of the last change, in ms; sessions of earlier versions have `true`.
 */
const CHANGED_KEY_PREFIX = "files.changed:";

/** Records changed files in the state of a session. `paths`: absolute, or relative to the project folder. */
export function recordChangedFiles(state: Map<string, unknown>, paths: readonly string[], projectDir: string): void {
  const nowMs = Date.now();
  for (const path of paths) state.set(CHANGED_KEY_PREFIX + relativeTo(path, projectDir), nowMs);
}

/**
 * Returns the changed files of a session, the most recently changed last. Paths in the project folder are relative to
 * that folder.
 */
export function listChangedFiles(state: ReadonlyMap<string, unknown>): string[] {
  return listByTime(state, CHANGED_KEY_PREFIX);
}

/** Returns the keys with a prefix, without the prefix, sorted by their values: times in ms. Other values come first. */
export function listByTime(state: ReadonlyMap<string, unknown>, prefix: string): string[] {
  const toTime = (value: unknown): number => (typeof value === "number" ? value : 0);
  return [...state]
    .filter(([key]) => key.startsWith(prefix))
    .sort(([, left], [, right]) => toTime(left) - toTime(right))
    .map(([key]) => key.slice(prefix.length));
}
