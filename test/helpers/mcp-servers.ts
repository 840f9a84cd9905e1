import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { defineTool, type Logger, type Tool } from "gantry";
import type { LogFields, OpenTools, McpServerHttp, McpServerStdio, ToolSource } from "gantry/plugin";
import { SOURCE_FLAGS } from "./source-paths.js";
import type { Hooks } from "./temp-dir.js";

const FAULTY_SERVER_FILE = fileURLToPath(new URL("./faulty-mcp-server.mjs", import.meta.url));

/** Environment with only PATH, for programs of tests. */
export const PATH_ENV = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };

/** The mutations are in TypeScript. */
const listNodeFlags = (mode: string) => (mode === "mutated" ? SOURCE_FLAGS : []);

/** The faulty MCP server of faulty-mcp-server.mjs as a program. */
export function createFaultyStdioServer(mode: string, env: Record<string, string> = {}): McpServerStdio {
  return { name: "hostile", command: process.execPath, args: [...listNodeFlags(mode), FAULTY_SERVER_FILE, mode], env };
}

/** Starts the faulty MCP server over HTTP, until the test ends. `kill` waits for the end only after SIGKILL. */
export async function startFaultyHttpServer(
  hooks: Hooks,
  mode: string,
  env: Record<string, string> = {},
): Promise<{ server: McpServerHttp; pid: number; kill(signal?: NodeJS.Signals): Promise<void> }> {
  const child = spawn(process.execPath, [...listNodeFlags(mode), FAULTY_SERVER_FILE, mode, "http"], {
    env: { ...PATH_ENV, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const closeEvent = once(child, "close");
  const kill = async (signal: NodeJS.Signals = "SIGKILL") => {
    child.kill(signal);
    if (signal === "SIGKILL") await closeEvent;
  };
  hooks.after(() => kill());
  const [url] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  return { server: { name: "hostile", url, headers: {} }, pid: child.pid ?? 0, kill };
}

/** A reference MCP server as a program. */
export function createReferenceStdioServer(
  name: "everything" | "filesystem" | "memory",
  ...args: string[]
): McpServerStdio {
  const file = fileURLToPath(
    new URL(`../../node_modules/@modelcontextprotocol/server-${name}/dist/index.js`, import.meta.url),
  );
  return { name, command: process.execPath, args: [file, ...args], env: {} };
}

/** Opens a tool source for a session. It is closed after the test. */
export async function openToolSource(
  hooks: Hooks,
  source: ToolSource,
  projectDir: string,
  sessionId = "session",
): Promise<OpenTools> {
  const tools = await source.open({ sessionId, projectDir }, new AbortController().signal);
  let closePromise: Promise<void> | undefined;
  const close = () => (closePromise ??= tools.close());
  hooks.after(close);
  return {
    get tools() {
      return tools.tools;
    },
    get prompts() {
      return tools.prompts ?? [];
    },
    close,
  };
}

/** A logger that records its lines. */
export function createRecordingLogger(): Logger & { lines: [level: string, message: string, fields: LogFields][] } {
  const lines: [string, string, LogFields][] = [];
  const createLogFunction =
    (level: string) =>
    (message: string, fields: LogFields = {}) =>
      void lines.push([level, message, fields]);
  return {
    lines,
    debug: createLogFunction("debug"),
    info: createLogFunction("info"),
    warn: createLogFunction("warn"),
    error: createLogFunction("error"),
  };
}

/** Whether a process exists and is not a zombie. */
export function isAlive(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

/** Tools that do nothing, as from MCP servers. An entry is a name, or a name with a description. */
export function createNoopMcpTools(
  entries: readonly (string | readonly [name: string, description: string])[],
): Tool[] {
  return entries.map((entry) => {
    const [name, description] = typeof entry === "string" ? [entry, `Is ${entry}.`] : entry;
    const origin = `mcp:${name.replace("__", "/")}`;
    return { ...defineTool({ name, description, run: () => name }), origin };
  });
}
