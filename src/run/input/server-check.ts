import { isAbsolute } from "node:path";
import { isRecord } from "../../base/json.js";
import { InputError } from "../../ports/errors.js";
import type { McpServer } from "../../ports/mcp-server.js";

/** Maximum MCP servers of one run. */
const MAX_SERVERS = 64;
const ALLOWED_KEYS = {
  program: ["name", "command", "args", "env", "cwd"],
  address: ["name", "url", "headers", "type"],
} as const;

/** Checks a list of MCP servers. Throws `InputError`. */
export function checkServers(field: string, servers: unknown): void {
  if (!Array.isArray(servers) || servers.length > MAX_SERVERS)
    throw new InputError(field, `a list of at most ${MAX_SERVERS} MCP servers`);
  servers.forEach((server: unknown, i) => checkServer(`${field}[${i}]`, server));
}

/** Checks one MCP server. Throws `InputError`. `at`: path of the value for the error; `""` for none. */
export function checkServer(at: string, server: unknown): asserts server is McpServer {
  const fault = (key: string, expected: string) => new InputError(at === "" ? key : `${at}.${key}`, expected);
  if (!isRecord(server)) throw new InputError(at || "server", "an object with name and command, or name and url");
  const isProgram = server["command"] !== undefined;
  const allowedKeys: readonly string[] = ALLOWED_KEYS[isProgram ? "program" : "address"];
  for (const [key, value] of Object.entries(server))
    if (!allowedKeys.includes(key) && value !== undefined) throw fault(key, `one of ${allowedKeys.join(", ")}`);
  const { name, command, args, env, cwd = "/", url, headers, type = "http" } = server;
  if (!isText(name) || name.length > 200 || /\p{Cc}/u.test(name)) throw fault("name", "a name in a line");
  if (isProgram) {
    if (!isText(command)) throw fault("command", "a program");
    if (!Array.isArray(args) || !args.every((arg) => typeof arg === "string" && !arg.includes("\0")))
      throw fault("args", "a list of strings");
    if (!areTexts(env)) throw fault("env", "an object of names and values");
    if (typeof cwd !== "string" || !isAbsolute(cwd)) throw fault("cwd", "an absolute path");
    return;
  }
  // The error does not contain the value, which may be secret.
  if (typeof url !== "string" || !isWeb(url)) throw fault("url", "an address with http or https");
  if (!areTexts(headers)) throw fault("headers", "an object of header names and values");
  if (type !== "http" && type !== "sse") throw fault("type", 'one of "http", "sse"');
}

/** Whether a URL uses `http` or `https`. */
export function isWeb(url: string): boolean {
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value.trim() !== "" && value.length <= 4_096 && !value.includes("\0");
}

function areTexts(value: unknown): boolean {
  return (
    isRecord(value) &&
    Object.entries(value).every(([name, text]) => typeof text === "string" && !`${name}${text}`.includes("\0"))
  );
}
