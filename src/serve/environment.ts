/** The value of an environment variable; undefined if it is not set. */
export function environment(name: string): string | undefined {
  return process.env[name];
}

/** Variables that child processes of tools get, beside those configured under `tools.env`. */
const CHILD_VARIABLES = ["PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "SHELL"];

/** The environment of tools' child processes: an allow-list, so that no key of this process reaches them. */
export function childEnvironment(extra: readonly string[]): Record<string, string> {
  // They have no terminal: an editor that git opened would keep a command until its time is over.
  const result: Record<string, string> = { GIT_EDITOR: ":" };
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && (CHILD_VARIABLES.includes(name) || name.startsWith("LC_") || extra.includes(name))) {
      result[name] = value;
    }
  }
  return result;
}
