import { stat } from "node:fs/promises";
import path from "node:path";
import { hasCode, type Agent } from "gantry";
import { isRecord, type McpServer } from "gantry/plugin";
import { invalidParams } from "./errors.js";

type Params = Readonly<Record<string, unknown>>;

/** MCP servers and folders that a client adds to a session, for the prompts of this client only. */
export interface ClientResources {
  readonly servers: readonly McpServer[];
  /** Existing folders; absolute paths. */
  readonly folders: readonly string[];
}

/** The resources and the names of ignored fields. */
export interface ReadBrought extends ClientResources {
  readonly ignored: readonly string[];
}

export const NO_RESOURCES: ClientResources = { servers: [], folders: [] };

/** Maximum number of MCP servers, and of folders. */
const MOST = 64;

/**
 * Reads `mcpServers` and `additionalDirectories` of a request. Rejects with `RpcError` for an invalid server or folder,
 * and for a server that this agent does not allow. `uses`: whether to use the two fields; otherwise they are reported
 * as ignored.
 */
export async function readClientResources(params: Params, agent: Agent, uses: boolean): Promise<ReadBrought> {
  const ignored: string[] = [];
  // Ignored fields are not validated and may contain anything.
  const listed = (field: string) => {
    if (uses) return listOf(params, field);
    if (!isNothing(params[field])) ignored.push(field);
    return [];
  };
  const named = listed("additionalDirectories");
  let given = listed("mcpServers");
  if (given.length > 0 && !agent.mcpServerFactory) {
    ignored.push("mcpServers");
    given = [];
  }
  // `agent.tools` is complete only after `prepare`; `readServers` looks for `bash` in it.
  if (given.length > 0) await agent.prepare();
  return { servers: readServers(given, agent), folders: await readFolders(named), ignored };
}

function isNothing(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0);
}

function listOf(params: Params, field: string): readonly unknown[] {
  const value = params[field] ?? [];
  if (!Array.isArray(value)) throw invalidParams(field, "an array");
  if (value.length > MOST) throw invalidParams(field, `at most ${MOST}`);
  return value;
}

function readServers(given: readonly unknown[], agent: Agent): McpServer[] {
  const servers = given.map((one, at) => serverOf(one, `mcpServers[${at}]`));
  servers.forEach((server, at) => {
    const field = `mcpServers[${at}]`;
    if (servers.findIndex(({ name }) => name === server.name) < at)
      throw invalidParams(`${field}.name`, "another name");
    // A client may start only programs that its prompts could start with `bash` anyway.
    if ("command" in server && !agent.tools.some(({ name }) => name === "bash"))
      throw invalidParams(field, "a server at an address: this agent runs no commands, so it starts no programs");
    try {
      agent.mcpServerFactory?.source(server);
    } catch (error) {
      if (!hasCode(error, "invalid_input")) throw error;
      throw invalidParams(`${field}.${error.field}`, error.message.replace(`${error.field}: expected `, ""));
    }
  });
  return servers;
}

function serverOf(given: unknown, field: string): McpServer {
  if (!isRecord(given)) throw invalidParams(field, "an object");
  const { type } = given;
  const name = text(given, "name", field);
  // The official schema has no type for programs; `stdio` has the same meaning.
  if (type === undefined || type === null || type === "stdio") {
    const args = given.args ?? [];
    if (!Array.isArray(args) || !args.every((one) => typeof one === "string"))
      throw invalidParams(`${field}.args`, "an array of strings");
    return { name, command: text(given, "command", field), args, env: pairs(given.env, `${field}.env`) };
  }
  if (type !== "http" && type !== "sse") throw invalidParams(`${field}.type`, "http, sse, or none for a program");
  return { name, url: text(given, "url", field), headers: pairs(given.headers, `${field}.headers`), type };
}

/** Converts `[{ name, value }]` to a record. */
function pairs(given: unknown, field: string): Record<string, string> {
  const list = given ?? [];
  const isPair = (one: unknown): one is { name: string; value: string } =>
    isRecord(one) && typeof one.name === "string" && one.name !== "" && typeof one.value === "string";
  if (!Array.isArray(list) || !list.every(isPair)) throw invalidParams(field, "an array of { name, value }");
  return Object.fromEntries(list.map(({ name, value }) => [name, value]));
}

function text(given: Params, key: string, field: string): string {
  const value = given[key];
  if (typeof value !== "string" || value === "") throw invalidParams(`${field}.${key}`, "a string that is not empty");
  return value;
}

async function readFolders(given: readonly unknown[]): Promise<string[]> {
  const folders = given.map(async (one, at) => {
    const field = `additionalDirectories[${at}]`;
    if (typeof one !== "string" || !path.isAbsolute(one)) throw invalidParams(field, "an absolute path");
    const stats = await stat(one).catch(() => undefined);
    if (!stats?.isDirectory()) throw invalidParams(field, "the absolute path of an existing folder");
    return path.resolve(one);
  });
  return [...new Set(await Promise.all(folders))];
}
