/** The parts of Node that this file uses; programs may also run in a browser. */
interface NodeProcess {
  readonly env: Readonly<Record<string, string | undefined>>;
  getBuiltinModule?(name: "node:fs"): { readFileSync(file: string, encoding: "utf8"): string };
  getBuiltinModule?(name: "node:os"): { homedir(): string };
  getBuiltinModule?(name: "node:path"): { join(...parts: string[]): string };
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/**
 * The `Authorization` header with the token that gantry wrote into its home. Undefined in a browser, for a server of
 * another machine, and without a readable token file.
 */
export function tokenHeaders({ hostname }: URL): Record<string, string> | undefined {
  const { process: node } = globalThis as { process?: NodeProcess };
  if (!LOOPBACK.test(hostname) || !node?.getBuiltinModule) return undefined;
  const { readFileSync } = node.getBuiltinModule("node:fs");
  const { homedir } = node.getBuiltinModule("node:os");
  const { join } = node.getBuiltinModule("node:path");
  try {
    const { GANTRY_HOME: configured = "" } = node.env;
    const home = configured === "" ? join(homedir(), ".gantry") : configured;
    return { Authorization: `Bearer ${readFileSync(join(home, "token"), "utf8").trim()}` };
  } catch {
    return undefined;
  }
}
