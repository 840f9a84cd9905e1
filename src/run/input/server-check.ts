import { isAbsolute } from "node:path";
import { isRecord } from "../../base/json.js";
import { InputError } from "../../ports/errors.js";
import type { McpServer } from "../../ports/mcp-server.js";

const MAX_SERVERS = 64;
const MAX_NAME_CHARACTERS = 200;
/** Maximum characters of a name or a command. */
const MAX_TEXT_CHARACTERS = 4_096;
const ALLOWED_KEYS = {
  stdio: ["name", "command", "args", "env", "cwd"],
  http: ["name", "url", "headers", "type"],
} as const;

export function checkServers(field: string, servers: unknown): void {
  if (!Array.isArray(servers) || servers.length > MAX_SERVERS)
    throw new InputError(field, `a list of at most ${MAX_SERVERS} MCP servers`);
  servers.forEach((server: unknown, i) => checkServer(`${field}[${i}]`, server));
}

/** Checks one MCP server. Throws `InputError`. `path`: field path of the value in the error; `""` for none. */
export function checkServer(path: string, server: unknown): asserts server is McpServer {
  const createError = (key: string, expected: string) => new InputError(path === "" ? key : `${path}.${key}`, expected);
  if (!isRecord(server)) throw new InputError(path || "server", "an object with name and command, or name and url");
  const isProgram = server["command"] !== undefined;
  const allowedKeys: readonly string[] = ALLOWED_KEYS[isProgram ? "stdio" : "http"];
  for (const [key, value] of Object.entries(server))
    if (!allowedKeys.includes(key) && value !== undefined) throw createError(key, `one of ${allowedKeys.join(", ")}`);
  const { name, command, args, env, cwd = "/", url, headers, type = "http" } = server;
  if (!isValidText(name) || name.length > MAX_NAME_CHARACTERS || /\p{Cc}/u.test(name))
    throw createError("name", "a name in a line");
  if (isProgram) {
    if (!isValidText(command)) throw createError("command", "a program");
    if (!Array.isArray(args) || !args.every((arg) => typeof arg === "string" && !arg.includes("\0")))
      throw createError("args", "a list of strings");
    if (!isTextRecord(env)) throw createError("env", "an object of names and values");
    if (typeof cwd !== "string" || !isAbsolute(cwd)) throw createError("cwd", "an absolute path");
    return;
  }
  // The error does not contain the value, which may be secret.
  if (typeof url !== "string" || !isWebUrl(url)) throw createError("url", "an address with http or https");
  if (!isTextRecord(headers)) throw createError("headers", "an object of header names and values");
  if (type !== "http" && type !== "sse") throw createError("type", 'one of "http", "sse"');
}

function isWebUrl(url: string): boolean {
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
}

function isValidText(value: unknown): value is string {
  return (
    typeof value === "string" && value.trim() !== "" && value.length <= MAX_TEXT_CHARACTERS && !value.includes("\0")
  );
}

function isTextRecord(value: unknown): boolean {
  return (
    isRecord(value) &&
    Object.entries(value).every(([name, text]) => typeof text === "string" && !`${name}${text}`.includes("\0"))
  );
}
