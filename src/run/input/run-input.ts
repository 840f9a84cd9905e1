import { InputError } from "../../ports/errors.js";
import { EFFORTS } from "../../models/efforts.js";
import type { RunInput } from "../../ports/run.js";
import { checkBudget } from "./budget-check.js";
import { checkFolders } from "./folders.js";
import { checkServers } from "./server-check.js";
import type { Tool } from "../../ports/tool.js";
import type { ToolServers } from "../../ports/mcp-server.js";
import type { ToolSource } from "../../ports/tool-source.js";
import { SESSION_MODES } from "../../sessions/session-modes.js";

const KNOWN: Readonly<Record<keyof RunInput, true>> = {
  message: true,
  compact: true,
  commands: true,
  attachments: true,
  attach: true,
  provider: true,
  model: true,
  reasoningEffort: true,
  mode: true,
  budget: true,
  outputSchema: true,
  queue: true,
  servers: true,
  onQueued: true,
  sessionId: true,
  projectDir: true,
  folders: true,
  systemPrompt: true,
  tools: true,
  signal: true,
  onWaiting: true,
  overflow: true,
  ask: true,
  asksInAuto: true,
  attended: true,
  askedAt: true,
  key: true,
  fingerprint: true,
};

/** Throws `InputError`. */
export function checkInput(input: RunInput): void {
  const strings = [
    "message",
    "provider",
    "model",
    "sessionId",
    "projectDir",
    "systemPrompt",
    "askedAt",
    "key",
    "fingerprint",
  ] as const;
  for (const field of strings) {
    const value: unknown = input[field];
    if (typeof value !== "string" && (field === "message" || value !== undefined))
      throw new InputError(field, "a string");
    // Half a character is in no header, no path and no database; a prompt may hold one that was cut.
    if (field !== "message" && field !== "systemPrompt" && typeof value === "string" && /\p{Surrogate}/u.test(value))
      throw new InputError(field, "whole characters");
  }
  for (const field of Object.keys(input))
    if (!Object.hasOwn(KNOWN, field)) throw new InputError(field, `one of ${Object.keys(KNOWN).join(", ")}`);
  if (input.reasoningEffort !== undefined) oneOf("reasoningEffort", EFFORTS, input.reasoningEffort);
  if (input.mode !== undefined) oneOf("mode", SESSION_MODES, input.mode);
  if (input.budget !== undefined) checkBudget("budget", input.budget);
  if (input.overflow !== undefined) oneOf("overflow", ["drop", "merge"], input.overflow);
  if (typeof (input.asksInAuto ?? true) !== "boolean") throw new InputError("asksInAuto", "true or false");
  if (typeof (input.attended ?? checkInput) !== "function") throw new InputError("attended", "a function");
  if (typeof (input.queue ?? false) !== "boolean") throw new InputError("queue", "true or false");
  if (typeof (input.onQueued ?? checkInput) !== "function") throw new InputError("onQueued", "a function");
  if (input.folders !== undefined) checkFolders(input.folders);
  if (typeof (input.commands ?? false) !== "boolean") throw new InputError("commands", "true or false");
  if (input.tools !== undefined) toolList(input.tools);
  if (input.servers !== undefined) checkServers("servers", input.servers);
  if (typeof (input.compact ?? false) !== "boolean") throw new InputError("compact", "true or false");
  if (input.compact) return checkCompact(input);
  if (input.message.trim() === "" && (input.attachments ?? []).length === 0)
    throw new InputError("message", "a prompt that is not empty");
}

/** Nothing is said, and so nothing is answered, in a run that compacts. */
function checkCompact({ sessionId, attachments = [], attach, outputSchema }: RunInput): void {
  if (sessionId === undefined) throw new InputError("sessionId", "the session to compact");
  if (attachments.length > 0) throw new InputError("attachments", "none beside compact");
  if (attach) throw new InputError("attach", "none beside compact");
  if (outputSchema !== undefined) throw new InputError("outputSchema", "none beside compact");
}

/** Throws `InputError` unless `value` is one of the names. */
export function oneOf(field: string, names: readonly string[], value: unknown): void {
  if (!names.includes(value as string))
    throw new InputError(field, `one of ${names.map((name) => JSON.stringify(name)).join(", ")}`);
}

const OF_TOOL = ["parse", "describe", "run"];

/** Tools, by name, and what has to be opened to have more. */
export interface ToolList {
  readonly tools: readonly Tool[];
  readonly sources: readonly ToolSource[];
  /** Of the sources those that outlive the run although the agent has them not. */
  readonly lasting?: readonly ToolSource[];
}

/** Throws `InputError` for what is no list of tools and tool sources, and for two of one name. */
export function toolList(entries: readonly (Tool | ToolSource)[]): ToolList {
  const given: unknown = entries;
  if (!Array.isArray(given)) throw new InputError("tools", "a list of tools and tool sources");
  entries.forEach((entry, i) => object(`tools[${i}]`, entry, "one of the tools, with", isSource(entry) ? [] : OF_TOOL));
  const sources = entries.filter(isSource);
  distinct("tools", sources);
  return {
    tools: byName(
      "tools",
      entries.filter((entry): entry is Tool => !isSource(entry)),
    ),
    sources,
  };
}

/** With the sources of the servers that the run brings along. Throws `InputError`. */
export function withServers(
  { tools, sources, lasting = [] }: ToolList,
  { toolServers }: { toolServers: ToolServers | undefined },
  { servers = [] }: Pick<RunInput, "servers">,
): ToolList {
  if (servers.length === 0) return { tools, sources, lasting };
  if (!toolServers) throw new InputError("servers", "none: this agent opens no servers of tools");
  const brought = servers.map((server) => toolServers.source(server));
  distinct("servers", brought);
  // Of one that the agent has under that name it has the tools already.
  const more = brought.filter(({ name }) => !sources.some((one) => one.name === name));
  return { tools, sources: [...sources, ...more], lasting: [...lasting, ...more] };
}

function isSource(entry: Tool | ToolSource): entry is ToolSource {
  const { open, run } = (entry ?? {}) as Partial<ToolSource & Tool>;
  return typeof open === "function" && typeof run !== "function";
}

/** Throws `InputError` for what is no list of tools, and for two of one name. */
export function byName(field: string, tools: readonly Tool[]): readonly Tool[] {
  objects(field, tools, "tools", OF_TOOL);
  distinct(field, tools);
  return [...tools].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function distinct(field: string, named: readonly { name: string }[]): void {
  const names = named.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw new InputError(field, `distinct names, got ${twice} twice`);
}

/** Throws `InputError` unless `value` is a list of objects with a name and these methods. */
export function objects(field: string, value: unknown, what: string, methods: readonly string[]): void {
  if (!Array.isArray(value)) throw new InputError(field, `a list of ${what}`);
  value.forEach((one, i) => object(`${field}[${i}]`, one, `one of the ${what}, with`, methods));
}

/** Throws `InputError` unless `value` has a name and these methods. */
export function object(field: string, value: unknown, what: string, methods: readonly string[]): void {
  const given = (typeof value === "object" && value !== null ? value : {}) as Readonly<Record<string, unknown>>;
  const missing = methods.filter((name) => typeof given[name] !== "function");
  if (typeof given["name"] !== "string") missing.unshift("name");
  if (missing.length > 0) throw new InputError(field, `${what} ${missing.join(", ")}`);
}
