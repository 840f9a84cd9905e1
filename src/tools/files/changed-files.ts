import { relativeTo } from "./files.js";

/** Begins the keys of a session's state that name changed files; one key a file, so that a call stores only its own. */
const CHANGED = "files.changed:";

/** Remember changed files in a session's state. `paths`: absolute, or relative to the project folder. */
export function recordChangedFiles(state: Map<string, unknown>, paths: readonly string[], projectDir: string): void {
  for (const path of paths) {
    const key = CHANGED + relativeTo(path, projectDir);
    if (!state.has(key)) state.set(key, true);
  }
}

/** The files that tools of a session reported as changed, oldest first; relative to the project folder where they lie in it. */
export function changedFiles(state: ReadonlyMap<string, unknown>): string[] {
  return [...state.keys()].flatMap((key) => (key.startsWith(CHANGED) ? [key.slice(CHANGED.length)] : []));
}
