/** Returns an environment variable, or undefined if it is not set. */
export function getEnvironmentVariable(name: string): string | undefined {
  return process.env[name];
}

/** Environment variables that tool processes inherit, in addition to `tools.env`. */
const CHILD_VARIABLES = ["PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "SHELL"];

/**
 * Returns the environment of tool processes: only `CHILD_VARIABLES`, `LC_*` and `extraNames`, so that keys of this
 * process are not passed on.
 */
export function createChildEnvironment(extraNames: readonly string[]): Record<string, string> {
  // Tool processes have no terminal. Without this variable, git would open an editor and block until the timeout.
  const result: Record<string, string> = { GIT_EDITOR: ":" };
  for (const [name, value] of Object.entries(process.env)) {
    if (
      value !== undefined &&
      (CHILD_VARIABLES.includes(name) || name.startsWith("LC_") || extraNames.includes(name))
    ) {
      result[name] = value;
    }
  }
  return result;
}
