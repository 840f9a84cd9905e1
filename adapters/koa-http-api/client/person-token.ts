/**
 * The parts of Node that this file uses. Declared here because the client is also compiled for browsers, without Node's
 * types.
 */
interface NodeProcess {
  readonly env: Readonly<Record<string, string | undefined>>;
  getBuiltinModule?(name: "node:fs"): { readFileSync(file: string, encoding: "utf8"): string };
  getBuiltinModule?(name: "node:os"): { homedir(): string };
  getBuiltinModule?(name: "node:path"): { join(...parts: string[]): string };
}

const LOOPBACK_HOST = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/**
 * The `Authorization` header with the token that gantry wrote into its home folder. Undefined in a browser, for a
 * server on another machine, or without a readable token file.
 */
export function readTokenHeaders({ hostname }: URL): Record<string, string> | undefined {
  const { process: nodeProcess } = globalThis as { process?: NodeProcess };
  if (!LOOPBACK_HOST.test(hostname) || !nodeProcess?.getBuiltinModule) return undefined;
  const { readFileSync } = nodeProcess.getBuiltinModule("node:fs");
  const { homedir } = nodeProcess.getBuiltinModule("node:os");
  const { join } = nodeProcess.getBuiltinModule("node:path");
  try {
    const { GANTRY_HOME: configuredHome = "" } = nodeProcess.env;
    const home = configuredHome === "" ? join(homedir(), ".gantry") : configuredHome;
    return { Authorization: `Bearer ${readFileSync(join(home, "token"), "utf8").trim()}` };
  } catch {
    return undefined;
  }
}
