import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Logger } from "gantry";
import type { LogFields, OpenTools, McpServerHttp, McpServerStdio, ToolSource } from "gantry/plugin";
import type { Hooks } from "./temp.js";

const HOSTILE = fileURLToPath(new URL("./hostile-mcp.mjs", import.meta.url));

/** Environment with only PATH, for programs of tests. */
export const PLAIN = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };

/** The hostile MCP server as a program. */
export function hostileProgram(how: string, env: Record<string, string> = {}): McpServerStdio {
  return { name: "hostile", command: process.execPath, args: [HOSTILE, how], env };
}

/** Starts the hostile MCP server at an address, until the test ends. */
export async function hostileAddress(
  hooks: Hooks,
  how: string,
  env: Record<string, string> = {},
): Promise<{ server: McpServerHttp; pid: number; kill(signal?: NodeJS.Signals): Promise<void> }> {
  const child = spawn(process.execPath, [HOSTILE, how, "http"], {
    env: { ...PLAIN, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "close");
  const kill = async (signal: NodeJS.Signals = "SIGKILL") => {
    child.kill(signal);
    if (signal === "SIGKILL") await ended;
  };
  hooks.after(() => kill());
  const [url] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  return { server: { name: "hostile", url, headers: {} }, pid: child.pid ?? 0, kill };
}

/** A reference MCP server as a program. */
export function referenceProgram(name: "everything" | "filesystem" | "memory", ...args: string[]): McpServerStdio {
  const file = fileURLToPath(
    new URL(`../../node_modules/@modelcontextprotocol/server-${name}/dist/index.js`, import.meta.url),
  );
  return { name, command: process.execPath, args: [file, ...args], env: {} };
}

/** Opens a tool source for a session. It is closed after the test. */
export async function opened(
  hooks: Hooks,
  source: ToolSource,
  projectDir: string,
  sessionId = "session",
): Promise<OpenTools> {
  const tools = await source.open({ sessionId, projectDir }, new AbortController().signal);
  let closing: Promise<void> | undefined;
  const close = () => (closing ??= tools.close());
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
export function noted(): Logger & { lines: [level: string, message: string, fields: LogFields][] } {
  const lines: [string, string, LogFields][] = [];
  const at =
    (level: string) =>
    (message: string, fields: LogFields = {}) =>
      void lines.push([level, message, fields]);
  return { lines, debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

/** Whether a process exists and is not a zombie. */
export function isLiving(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}
