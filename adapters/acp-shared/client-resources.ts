import { stat } from "node:fs/promises";
import path from "node:path";
import { hasCode, type Agent } from "gantry";
import { isRecord, type McpServer } from "gantry/plugin";
import { toParamsError } from "./errors.js";
import { readSystemPrompt, type ClientInstructions } from "./system-prompt.js";

type Params = Readonly<Record<string, unknown>>;

/** MCP servers, folders and instructions that a client adds to a session, for the prompts of this client only. */
export interface ClientResources {
  readonly servers: readonly McpServer[];
  /** Existing folders; absolute paths. */
  readonly folders: readonly string[];
  /** Undefined if the client sends none. */
  readonly instructions?: ClientInstructions | undefined;
}

export interface ClientResourcesResult extends ClientResources {
  /** Names of the request fields that were ignored. */
  readonly ignoredFields: readonly string[];
}

export const NO_RESOURCES: ClientResources = { servers: [], folders: [] };

/** Maximum length of the list of MCP servers, and of the list of folders. */
const MAX_RESOURCES = 64;

/**
 * Reads `mcpServers`, `additionalDirectories` and the system prompt of a request. Rejects with `RpcError` for an invalid
 * value, and for a server that this agent does not allow. `readsFields`: whether to use the first two fields. If false,
 * fields that are not empty are reported as ignored. `allowsSse`: whether a server may use HTTP with SSE.
 */
export async function readClientResources(
  params: Params,
  agent: Agent,
  { readsFields, allowsSse }: { readsFields: boolean; allowsSse: boolean },
): Promise<ClientResourcesResult> {
  const ignoredFields: string[] = [];
  // Ignored fields are not validated and may contain anything.
  const readField = (field: string) => {
    if (readsFields) return readList(params, field);
    if (!isEmpty(params[field])) ignoredFields.push(field);
    return [];
  };
  const folderInputs = readField("additionalDirectories");
  let serverInputs = readField("mcpServers");
  if (serverInputs.length > 0 && !agent.mcpServerFactory) {
    ignoredFields.push("mcpServers");
    serverInputs = [];
  }
  // `agent.tools` is complete only after `prepare`; `readServers` looks for `bash` in it.
  if (serverInputs.length > 0) await agent.prepare();
  const servers = readServers(serverInputs, agent, allowsSse);
  // Checked here, because the module is loaded only when a client sends instructions.
  const hasInstructions = "systemPrompt" in params || (isRecord(params._meta) && "systemPrompt" in params._meta);
  const instructions = hasInstructions ? readSystemPrompt(params) : undefined;
  return { servers, folders: await readFolders(folderInputs), instructions, ignoredFields };
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0);
}

function readList(params: Params, field: string): readonly unknown[] {
  const value = params[field] ?? [];
  if (!Array.isArray(value)) throw toParamsError(field, "an array");
  if (value.length > MAX_RESOURCES) throw toParamsError(field, `at most ${MAX_RESOURCES}`);
  return value;
}

function readServers(serverInputs: readonly unknown[], agent: Agent, allowsSse: boolean): McpServer[] {
  const servers = serverInputs.map((serverInput, index) => readServer(serverInput, `mcpServers[${index}]`));
  servers.forEach((server, index) => {
    const field = `mcpServers[${index}]`;
    if (servers.findIndex(({ name }) => name === server.name) < index)
      throw toParamsError(`${field}.name`, "a name that no other server has");
    // A client may start only programs that its prompts could start with `bash` anyway.
    if ("type" in server && server.type === "sse" && !allowsSse)
      throw toParamsError(`${field}.type`, "http or no type for a program: mcpCapabilities.sse is false");
    if ("command" in server && !agent.tools.some(({ name }) => name === "bash"))
      throw toParamsError(field, "an HTTP server: this agent has no bash tool and starts no programs");
    try {
      agent.mcpServerFactory?.source(server);
    } catch (error) {
      if (!hasCode(error, "invalid_input")) throw error;
      throw toParamsError(`${field}.${error.field}`, error.message.replace(`${error.field}: expected `, ""));
    }
  });
  return servers;
}

function readServer(input: unknown, field: string): McpServer {
  if (!isRecord(input)) throw toParamsError(field, "an object");
  const { type } = input;
  const name = readText(input, "name", field);
  // The official schema has no type for programs; `stdio` has the same meaning.
  if (type === undefined || type === null || type === "stdio") {
    const args = input.args ?? [];
    if (!Array.isArray(args) || !args.every((arg) => typeof arg === "string"))
      throw toParamsError(`${field}.args`, "an array of strings");
    return { name, command: readText(input, "command", field), args, env: readPairs(input.env, `${field}.env`) };
  }
  if (type !== "http" && type !== "sse") throw toParamsError(`${field}.type`, "http, sse, or no type for a program");
  return { name, url: readText(input, "url", field), headers: readPairs(input.headers, `${field}.headers`), type };
}

/** Converts a list of `{ name, value }` to an object; undefined and null give an empty object. */
function readPairs(input: unknown, field: string): Record<string, string> {
  const pairs = input ?? [];
  const isPair = (pair: unknown): pair is { name: string; value: string } =>
    isRecord(pair) && typeof pair.name === "string" && pair.name !== "" && typeof pair.value === "string";
  if (!Array.isArray(pairs) || !pairs.every(isPair)) throw toParamsError(field, "an array of { name, value }");
  return Object.fromEntries(pairs.map(({ name, value }) => [name, value]));
}

function readText(record: Params, key: string, field: string): string {
  const value = record[key];
  if (typeof value !== "string" || value === "") throw toParamsError(`${field}.${key}`, "a string that is not empty");
  return value;
}

async function readFolders(inputs: readonly unknown[]): Promise<string[]> {
  const folders = inputs.map(async (folder, index) => {
    const field = `additionalDirectories[${index}]`;
    if (typeof folder !== "string" || !path.isAbsolute(folder)) throw toParamsError(field, "an absolute path");
    const stats = await stat(folder).catch(() => undefined);
    if (!stats?.isDirectory()) throw toParamsError(field, "the absolute path of an existing folder");
    return path.resolve(folder);
  });
  return [...new Set(await Promise.all(folders))];
}
