import { relativeTo } from "./files.js";

/** Prefix of the state keys for changed files. One key per file, so that a call stores only its own changes. */
const CHANGED_KEY_PREFIX = "files.changed:";

/** Records changed files in the state of a session. `paths`: absolute, or relative to the project folder. */
export function recordChangedFiles(state: Map<string, unknown>, paths: readonly string[], projectDir: string): void {
  for (const path of paths) {
    const key = CHANGED_KEY_PREFIX + relativeTo(path, projectDir);
    if (!state.has(key)) state.set(key, true);
  }
}

/** Returns the changed files of a session, oldest first. Paths in the project folder are relative to that folder. */
export function listChangedFiles(state: ReadonlyMap<string, unknown>): string[] {
  return [...state.keys()].flatMap((key) =>
    key.startsWith(CHANGED_KEY_PREFIX) ? [key.slice(CHANGED_KEY_PREFIX.length)] : [],
  );
}
