import { stat } from "node:fs/promises";
import path from "node:path";
import { hasCode, type Agent } from "gantry";
import { isRecord, type ToolServer } from "gantry/plugin";
import { invalidParams } from "./errors.js";

type Params = Readonly<Record<string, unknown>>;

/** What a client brings along with a session, for the prompts of that client. */
export interface Brought {
  readonly servers: readonly ToolServer[];
  /** Real folders; absolute paths. */
  readonly folders: readonly string[];
}

/** What is brought, and the names of what is left out of it. */
export interface ReadBrought extends Brought {
  readonly ignored: readonly string[];
}

export const NOTHING: Brought = { servers: [], folders: [] };

/** Of each there may be so many. */
const MOST = 64;

/**
 * `mcpServers` and `additionalDirectories` of a request. Rejects with `RpcError` for what is no server and no folder, and
 * for a server that may not be had here. `uses`: whether anything is made of them.
 */
export async function readBrought(params: Params, agent: Agent, uses: boolean): Promise<ReadBrought> {
  const ignored: string[] = [];
  // Where all of it is ignored it is not looked at either: it may be anything.
  const listed = (field: string) => {
    if (uses) return listOf(params, field);
    if (!isNothing(params[field])) ignored.push(field);
    return [];
  };
  const named = listed("additionalDirectories");
  let given = listed("mcpServers");
  if (given.length > 0 && !agent.toolServers) {
    ignored.push("mcpServers");
    given = [];
  }
  // Whether there is a tool for commands is known with the tools.
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

function readServers(given: readonly unknown[], agent: Agent): ToolServer[] {
  const servers = given.map((one, at) => serverOf(one, `mcpServers[${at}]`));
  servers.forEach((server, at) => {
    const field = `mcpServers[${at}]`;
    if (servers.findIndex(({ name }) => name === server.name) < at)
      throw invalidParams(`${field}.name`, "another name");
    // A program is what a client's prompts could start by a command anyway, and never more.
    if ("command" in server && !agent.tools.some(({ name }) => name === "bash"))
      throw invalidParams(field, "a server at an address: this agent runs no commands, so it starts no programs");
    try {
      agent.toolServers?.source(server);
    } catch (error) {
      if (!hasCode(error, "invalid_input")) throw error;
      throw invalidParams(`${field}.${error.field}`, error.message.replace(`${error.field}: expected `, ""));
    }
  });
  return servers;
}

function serverOf(given: unknown, field: string): ToolServer {
  if (!isRecord(given)) throw invalidParams(field, "an object");
  const { type } = given;
  const name = text(given, "name", field);
  // Programs have no type in the official schema; who writes one means no other thing.
  if (type === undefined || type === null || type === "stdio") {
    const args = given.args ?? [];
    if (!Array.isArray(args) || !args.every((one) => typeof one === "string"))
      throw invalidParams(`${field}.args`, "an array of strings");
    return { name, command: text(given, "command", field), args, env: pairs(given.env, `${field}.env`) };
  }
  if (type !== "http" && type !== "sse") throw invalidParams(`${field}.type`, "http, sse, or none for a program");
  return { name, url: text(given, "url", field), headers: pairs(given.headers, `${field}.headers`), type };
}

/** `[{ name, value }]`, as a record. */
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
