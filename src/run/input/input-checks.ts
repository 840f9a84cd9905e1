import { InputError } from "../../ports/errors.js";
import type { McpServerFactory } from "../../ports/mcp-server.js";
import type { RunInput } from "../../ports/run.js";
import type { Tool } from "../../ports/tool.js";
import type { ToolSource } from "../../ports/tool-source.js";

const EXPECTED_TYPES = { string: "a string", boolean: "true or false", function: "a function" };

type FieldType = keyof typeof EXPECTED_TYPES | "any";
/** The `typeof` of each field of a record, as far as `checkFields` checks it. */
export type FieldTypes<T> = Readonly<Record<keyof T, FieldType>>;

/** Throws `InputError` for an unknown field, or a field of another type. Undefined fields are valid. */
export function checkFields<T extends object>(record: T, types: FieldTypes<T>): void {
  for (const [field, value] of Object.entries(record)) {
    if (!Object.hasOwn(types, field)) throw new InputError(field, `one of ${Object.keys(types).join(", ")}`);
    const type: FieldType = types[field as keyof T];
    if (type !== "any" && value !== undefined && typeof value !== type)
      throw new InputError(field, EXPECTED_TYPES[type]);
  }
}

/** Throws `InputError` unless `value` is one of the names. */
export function checkOneOf(field: string, names: readonly string[], value: unknown): void {
  if (!names.includes(value as string))
    throw new InputError(field, `one of ${names.map((name) => JSON.stringify(name)).join(", ")}`);
}

/** Throws `InputError` unless `value` is a list of objects with a name and these methods. */
export function checkObjects(field: string, value: unknown, noun: string, methods: readonly string[]): void {
  if (!Array.isArray(value)) throw new InputError(field, `a list of ${noun}`);
  value.forEach((entry, i) => checkObject(`${field}[${i}]`, entry, `one of the ${noun}, with`, methods));
}

/** Throws `InputError` unless `value` has a name and these methods. */
export function checkObject(field: string, value: unknown, expected: string, methods: readonly string[]): void {
  const record = (typeof value === "object" && value !== null ? value : {}) as Readonly<Record<string, unknown>>;
  const missingMembers = methods.filter((name) => typeof record[name] !== "function");
  if (typeof record["name"] !== "string") missingMembers.unshift("name");
  if (missingMembers.length > 0) throw new InputError(field, `${expected} ${missingMembers.join(", ")}`);
}

const TOOL_METHODS = ["parse", "describe", "run"];

/** Tools, sorted by name, and sources that open more tools. */
export interface ToolList {
  readonly tools: readonly Tool[];
  readonly sources: readonly ToolSource[];
  /** Sources that stay open after the run: the agent's own, and the MCP servers of clients. */
  readonly persistentSources?: readonly ToolSource[];
}

/** Splits a list into tools and tool sources. Throws `InputError` for an invalid list or a duplicate name. */
export function createToolList(entries: readonly (Tool | ToolSource)[]): ToolList {
  const list: unknown = entries;
  if (!Array.isArray(list)) throw new InputError("tools", "a list of tools and tool sources");
  entries.forEach((entry, i) =>
    checkObject(`tools[${i}]`, entry, "one of the tools, with", isSource(entry) ? [] : TOOL_METHODS),
  );
  const sources = entries.filter(isSource);
  checkDistinctNames("tools", sources);
  return {
    tools: checkAndSortTools(
      "tools",
      entries.filter((entry): entry is Tool => !isSource(entry)),
    ),
    sources,
  };
}

/**
 * Adds sources for the MCP servers in the run's input. Throws `InputError` if the agent opens no MCP servers, or for a
 * duplicate name.
 */
export function withMcpServers(
  { tools, sources, persistentSources = [] }: ToolList,
  { mcpServerFactory }: { mcpServerFactory: McpServerFactory | undefined },
  { mcpServers = [] }: Pick<RunInput, "mcpServers">,
): ToolList {
  if (mcpServers.length === 0) return { tools, sources, persistentSources };
  if (!mcpServerFactory) throw new InputError("mcpServers", "none: this agent opens no MCP servers");
  const clientSources = mcpServers.map((server) => mcpServerFactory.source(server));
  checkDistinctNames("mcpServers", clientSources);
  // If the agent has a source with the same name, the run already has that source's tools.
  const extraSources = clientSources.filter(({ name }) => !sources.some((source) => source.name === name));
  return { tools, sources: [...sources, ...extraSources], persistentSources: [...persistentSources, ...extraSources] };
}

function isSource(entry: Tool | ToolSource): entry is ToolSource {
  const { open, run } = (entry ?? {}) as Partial<ToolSource & Tool>;
  return typeof open === "function" && typeof run !== "function";
}

/** Checks a list of tools and sorts it by name. Throws `InputError` for an invalid list or a duplicate name. */
export function checkAndSortTools(field: string, tools: readonly Tool[]): readonly Tool[] {
  checkObjects(field, tools, "tools", TOOL_METHODS);
  checkDistinctNames(field, tools);
  return [...tools].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function checkDistinctNames(field: string, namedEntries: readonly { name: string }[]): void {
  const names = namedEntries.map(({ name }) => name);
  const duplicate = names.find((name, i) => names.indexOf(name) !== i);
  if (duplicate !== undefined) throw new InputError(field, `distinct names, got ${duplicate} twice`);
}
