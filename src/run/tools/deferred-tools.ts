import { isRecord } from "../../base/json.js";
import { toPrintable } from "../../base/printable.js";
import { ToolError, ToolInputError } from "../../ports/errors.js";
import type { Tool } from "../../ports/tool.js";
import { defineTool } from "../../tools/define-tool.js";

const SEARCH_TOOL_NAME = "tool_search";
/** Key in the session's state: names of the loaded tools, in the order in which they were loaded. */
const LOADED_KEY = "loadedTools";
/** Results of a search by keywords: by default, and at most. */
const DEFAULT_RESULTS = 5;
const MAX_RESULTS = 20;
/** Maximum bytes of the names in the system prompt. The other tools are found by keywords. */
const MAX_NAMES_BYTES = 16_384;
/** Maximum characters of a description in the result of a search. The next request has the complete description. */
const MAX_SHOWN_CHARACTERS = 160;
/** Weights of a keyword that is a word of the name, a part of the name, or a part of the description. */
const WEIGHTS = { word: 4, name: 2, description: 1 };

/** The tools of a run whose model loads tools by `tool_search`. */
export interface DeferredTools {
  /** All tools that calls may use, with `tool_search`. Sorted by name. */
  readonly callable: readonly Tool[];
  /** Section of the system prompt with the names of the deferred tools. */
  readonly section: string;
  /**
   * Returns the tools for the next request: those that are always sent, then the loaded ones in the order of loading,
   * so that a new tool changes as little as possible of the cached prefix. The same array until a tool is loaded.
   */
  offered(): readonly Tool[];
}

/**
 * Replaces the schemas of the tools that `isDeferred` selects with their names and a search. `state` is the session's
 * state, which keeps the names of loaded tools across runs and compactions. Undefined if a tool has the search's name.
 *
 * The arguments of `tool_search` are those of Claude Code's ToolSearch (2.0: `query`, with `select:` and `+word`, and
 * `max_results`), which its models know.
 */
export function deferTools(
  tools: readonly Tool[],
  isDeferred: (tool: Tool) => boolean,
  state: Map<string, unknown>,
): DeferredTools | undefined {
  if (tools.some(({ name }) => name === SEARCH_TOOL_NAME)) return undefined;
  const deferred = new Map(tools.filter(isDeferred).map((tool) => [tool.name, tool]));
  const search = createSearchTool(deferred);
  const sentTools = [...tools.filter(({ name }) => !deferred.has(name)), search].sort(compareNames);
  const callable = [...sentTools, ...[...deferred.values()].map((tool) => loadOnCall(tool, state))].sort(compareNames);
  let offeredNames = "";
  let offeredTools: readonly Tool[] = sentTools;
  const offered = (): readonly Tool[] => {
    const loadedTools = readLoaded(state).flatMap((name) => deferred.get(name) ?? []);
    const names = loadedTools.map(({ name }) => name).join();
    if (names !== offeredNames) [offeredNames, offeredTools] = [names, [...sentTools, ...loadedTools]];
    return offeredTools;
  };
  return { callable, section: createSection([...deferred.keys()]), offered };
}

function compareNames(a: Tool, b: Tool): number {
  return a.name < b.name ? -1 : 1;
}

function readLoaded(state: ReadonlyMap<string, unknown>): readonly string[] {
  const names = state.get(LOADED_KEY);
  return Array.isArray(names) ? names.filter((name): name is string => typeof name === "string") : [];
}

function load(state: Map<string, unknown>, names: readonly string[]): void {
  const loadedNames = readLoaded(state);
  const newNames = names.filter((name) => !loadedNames.includes(name));
  if (newNames.length > 0) state.set(LOADED_KEY, [...loadedNames, ...newNames]);
}

/**
 * A call of a tool that is not loaded loads the tool. The call runs if its arguments fit the schema, which the model has
 * not seen. Otherwise the model gets the schema.
 */
function loadOnCall(tool: Tool, state: Map<string, unknown>): Tool {
  const { name, description, inputSchema, kind, parallel, needsPermission, origin } = tool;
  const members: Partial<Tool> = {
    ...{ name, description, inputSchema, kind, parallel, needsPermission, origin },
    parse: (input): unknown => {
      const fault = readLoaded(state).includes(name) ? undefined : findFault(tool, input);
      if (fault === undefined) return tool.parse(input);
      load(state, [name]);
      throw new ToolInputError(`${fault}, so the call did not run. The schema: ${JSON.stringify(inputSchema)}`);
    },
    describe: (args, projectDir) => tool.describe(args, projectDir),
    run: (args, context) => {
      load(context.state, [name]);
      return tool.run(args, context);
    },
  };
  // A spread would lose the methods of a class. An assignment would fail if the tool is frozen.
  return Object.create(tool, Object.getOwnPropertyDescriptors(members)) as Tool;
}

function findFault({ inputSchema: { properties, required } }: Tool, input: unknown): string | undefined {
  if (!isRecord(input)) return undefined;
  const missing = (Array.isArray(required) ? required : []).filter((key) => !Object.hasOwn(input, String(key)));
  if (missing.length > 0) return `the tool was not loaded and needs ${missing.join(", ")}`;
  const unknown = isRecord(properties) ? Object.keys(input).filter((key) => !Object.hasOwn(properties, key)) : [];
  return unknown.length > 0 ? `the tool was not loaded and has no argument ${unknown.join(", ")}` : undefined;
}

function createSearchTool(tools: ReadonlyMap<string, Tool>): Tool {
  return defineTool({
    name: SEARCH_TOOL_NAME,
    description:
      "Load tools of MCP servers, so that you can call them from the next step on. Load all that a task needs in one call.",
    schema: {
      type: "object",
      properties: {
        query: {
          type: "string",
          description:
            "Names from the list, separated by commas (select:a__b,a__c), or keywords for what the tool does. +word: must be in the name.",
        },
        max_results: { type: "integer", description: `For keywords. Default ${DEFAULT_RESULTS}.` },
      },
      required: ["query"],
    } as const,
    kind: "search",
    describe: ({ query }) => `Load tools: ${toPrintable(query.slice(0, MAX_SHOWN_CHARACTERS))}`,
    run: ({ query, max_results: maxResults = DEFAULT_RESULTS }, { state }) => {
      const selectedNames = selectNames(query, tools);
      const count = Math.min(Math.max(maxResults, 1), MAX_RESULTS);
      const names = selectedNames ?? rankNames(query, tools).slice(0, count);
      if (names.length === 0)
        throw new ToolError("no tool matches. Try other keywords, or a name from the list in the system prompt.");
      load(state, names);
      const lines = names.map((name) => `- ${name}: ${toShortText(tools.get(name)?.description ?? "")}`);
      return `Loaded; you can call them now:\n${lines.join("\n")}`;
    },
  });
}

/** Returns the tools that a query names, or undefined if it has keywords. Throws `ToolError` for an unknown name. */
function selectNames(query: string, tools: ReadonlyMap<string, Tool>): string[] | undefined {
  const [, prefix, list = ""] = /^\s*(select:)?([^]*)$/i.exec(query)!;
  const names = list.split(/[\s,]+/).filter((name) => name !== "");
  if (prefix === undefined && !names.every((name) => tools.has(name))) return undefined;
  const unknownNames = names.filter((name) => !tools.has(name)).map(toPrintable);
  if (unknownNames.length > 0) throw new ToolError(`no tool has the name ${unknownNames.join(", ")}.`);
  return [...new Set(names)];
}

/** Returns the names of the tools that match keywords, the best first. Rare keywords count more. */
function rankNames(query: string, tools: ReadonlyMap<string, Tool>): string[] {
  const requiredWords = splitWords(/\+\S+/g.exec(query)?.join(" ") ?? "");
  const words = [...new Set(splitWords(query))];
  const entries = [...tools.values()].map(({ name, description }) => ({
    name,
    words: splitWords(name),
    description: description.toLowerCase(),
    scores: [] as number[],
  }));
  for (const word of words) {
    for (const { name, words: nameWords, description, scores } of entries) {
      const place = nameWords.includes(word) ? "word" : name.toLowerCase().includes(word) ? "name" : "description";
      scores.push(place === "description" && !description.includes(word) ? 0 : WEIGHTS[place]);
    }
  }
  const rarities = words.map((_, i) => {
    const matchCount = entries.filter(({ scores }) => scores[i]! > 0).length;
    return Math.log(1 + entries.length / Math.max(matchCount, 1));
  });
  return entries
    .filter(({ name }) => requiredWords.every((word) => name.toLowerCase().includes(word)))
    .map(({ name, scores }) => ({ name, score: scores.reduce((sum, score, i) => sum + score * rarities[i]!, 0) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score || (a.name < b.name ? -1 : 1))
    .map(({ name }) => name);
}

/** Splits a name or a query into words, without the plural's s. */
function splitWords(text: string): string[] {
  const separated = text.replace(/([\p{Ll}\d])(?=\p{Lu})/gu, "$1 ").toLowerCase();
  return (separated.match(/[\p{L}\p{N}]+/gu) ?? []).map((word) => (word.length > 3 ? word.replace(/s$/, "") : word));
}

function toShortText(description: string): string {
  const line = description.replace(/\s+/g, " ").trim();
  return line.length > MAX_SHOWN_CHARACTERS ? `${line.slice(0, MAX_SHOWN_CHARACTERS - 1)}…` : line;
}

/** Lists the names by server, because all names of a server begin with the server's key and `__`. */
function createSection(names: readonly string[]): string {
  const namesByServer = new Map<string, string[]>();
  for (const name of names.toSorted()) {
    const [, server = "", tool = name] = /^(.*?__)([^]*)$/.exec(name) ?? [];
    namesByServer.set(server, [...(namesByServer.get(server) ?? []), tool]);
  }
  const maxBytes = Math.floor(MAX_NAMES_BYTES / namesByServer.size);
  const lines = [...namesByServer].map(([server, tools]) => {
    let bytes = 0;
    const shownTools = tools.filter((tool) => (bytes += tool.length + 2) <= maxBytes);
    const omittedCount = tools.length - shownTools.length;
    const note = omittedCount > 0 ? `, and ${omittedCount} more, found by keywords` : "";
    return `- ${server}{${shownTools.join(", ")}}${note}`;
  });
  return `# Tools to load
These tools exist but are not loaded. When a task needs one, load it with ${SEARCH_TOOL_NAME}, then call it. The full name is the part before the braces and one name in them.
${lines.join("\n")}`;
}
