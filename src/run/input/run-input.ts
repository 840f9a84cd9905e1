import { isAbsolute } from "node:path";
import { InputError } from "../../ports/errors.js";
import { EFFORTS } from "../../models/efforts.js";
import { PROMPT_USES } from "../../ports/agent-options.js";
import { isRecord } from "../../base/json.js";
import type { RunInput, RunRewind } from "../../ports/run.js";
import { checkBudget } from "./budget-check.js";
import { checkServers } from "./server-check.js";
import type { Tool } from "../../ports/tool.js";
import type { McpServerFactory } from "../../ports/mcp-server.js";
import type { ToolSource } from "../../ports/tool-source.js";
import { SESSION_MODES } from "../../sessions/session-modes.js";

const EXPECTED_TYPES = { string: "a string", boolean: "true or false", function: "a function" };

type FieldType = keyof typeof EXPECTED_TYPES | "any";
/** The `typeof` of each field of a record, as far as `checkFields` checks it. */
export type FieldTypes<T> = Readonly<Record<keyof T, FieldType>>;

const INPUT_TYPES: FieldTypes<RunInput> = {
  message: "string",
  compact: "boolean",
  rewind: "any",
  retry: "boolean",
  commands: "boolean",
  attachments: "any",
  attach: "any",
  provider: "string",
  model: "string",
  reasoningEffort: "any",
  mode: "any",
  budget: "any",
  outputSchema: "any",
  queue: "boolean",
  mcpServers: "any",
  onQueued: "function",
  sessionId: "string",
  projectDir: "string",
  folders: "any",
  systemPrompt: "string",
  promptUse: "any",
  tools: "any",
  signal: "any",
  onWaiting: "any",
  overflow: "any",
  ask: "any",
  alwaysAsk: "boolean",
  hasResponder: "function",
  clientName: "string",
  idempotencyKey: "string",
  fingerprint: "string",
};

/** Throws `InputError` for an unknown field, or a field of another type. Undefined fields are valid. */
export function checkFields<T extends object>(record: T, types: FieldTypes<T>): void {
  for (const [field, value] of Object.entries(record)) {
    if (!Object.hasOwn(types, field)) throw new InputError(field, `one of ${Object.keys(types).join(", ")}`);
    const type: FieldType = types[field as keyof T];
    if (type !== "any" && value !== undefined && typeof value !== type)
      throw new InputError(field, EXPECTED_TYPES[type]);
  }
}

/** Checks the input of a run. Throws `InputError`. */
export function checkInput(input: RunInput): void {
  if (typeof input.message !== "string") throw new InputError("message", "a string");
  checkFields(input, INPUT_TYPES);
  // Headers, paths and databases do not accept lone surrogates. A truncated prompt may contain one.
  for (const [field, value] of Object.entries(input))
    if (field !== "message" && field !== "systemPrompt" && typeof value === "string" && /\p{Surrogate}/u.test(value))
      throw new InputError(field, "no lone surrogates");
  if (input.reasoningEffort !== undefined) checkOneOf("reasoningEffort", EFFORTS, input.reasoningEffort);
  if (input.promptUse !== undefined) checkOneOf("promptUse", PROMPT_USES, input.promptUse);
  if (input.mode !== undefined) checkOneOf("mode", SESSION_MODES, input.mode);
  if (input.budget !== undefined) checkBudget("budget", input.budget);
  if (input.overflow !== undefined) checkOneOf("overflow", ["drop", "merge"], input.overflow);
  const { folders = [] }: { folders?: unknown } = input;
  if (!Array.isArray(folders) || !folders.every((folder) => typeof folder === "string" && isAbsolute(folder)))
    throw new InputError("folders", "a list of absolute paths");
  if (input.tools !== undefined) createToolList(input.tools);
  if (input.mcpServers !== undefined) checkServers("mcpServers", input.mcpServers);
  if (input.rewind !== undefined) checkRewind(input);
  if (input.retry) return checkRetry(input);
  if (input.compact) return checkCompact(input);
  if (input.message.trim() === "" && (input.attachments ?? []).length === 0)
    throw new InputError("message", "a non-empty prompt");
}

/** Rejects fields for a prompt or an answer, because a run that compacts has neither. */
function checkCompact({ sessionId, attachments = [], attach, outputSchema }: RunInput): void {
  if (sessionId === undefined) throw new InputError("sessionId", "the session to compact");
  if (attachments.length > 0) throw new InputError("attachments", "none beside compact");
  if (attach) throw new InputError("attach", "none beside compact");
  if (outputSchema !== undefined) throw new InputError("outputSchema", "none beside compact");
}

const REWIND_TYPES: FieldTypes<RunRewind> = { before: "string", files: "boolean", force: "boolean" };

function checkRewind({ rewind, sessionId, compact, queue }: RunInput): void {
  if (!isRecord(rewind)) throw new InputError("rewind", "an object with before");
  checkFields(rewind as unknown as RunRewind, REWIND_TYPES);
  if (typeof rewind["before"] !== "string" || rewind["before"] === "")
    throw new InputError("rewind", "an object with before");
  if (sessionId === undefined) throw new InputError("sessionId", "the session to rewind");
  if (compact) throw new InputError("compact", "false beside rewind");
  // The results of the runs that are ahead would be hidden.
  if (queue) throw new InputError("queue", "false beside rewind");
}

/** Rejects what belongs to a prompt, because a retry has none. */
function checkRetry({ message, sessionId, attachments = [], attach, compact, rewind, commands }: RunInput): void {
  if (sessionId === undefined) throw new InputError("sessionId", "the session to continue");
  if (message !== "") throw new InputError("retry", "false beside a message");
  if (attachments.length > 0 || attach) throw new InputError("retry", "false beside attachments");
  if (compact || rewind || commands) throw new InputError("retry", "false beside compact, rewind and commands");
}

/** Throws `InputError` unless `value` is one of the names. */
export function checkOneOf(field: string, names: readonly string[], value: unknown): void {
  if (!names.includes(value as string))
    throw new InputError(field, `one of ${names.map((name) => JSON.stringify(name)).join(", ")}`);
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
