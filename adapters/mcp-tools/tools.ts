import { defineTool, type Tool, type ToolContext, type ToolOutput } from "gantry";
import type { StandardSchema } from "gantry/plugin";
import { toResourceContent, toResultContent } from "./content.js";
import { matchesGlob, originOf, toToolName } from "./names.js";
import type { ListedTool, Listing } from "./listing.js";
import type { SharedServer } from "./shared-server.js";

export interface ServerUse {
  /** The server's tools to offer, as names or globs. Default all. */
  readonly tools?: readonly string[];
  /**
   * Timeout of a call, in seconds. Progress notifications restart the timeout, up to 30 times its length in total.
   * Default 120.
   */
  readonly timeout?: number;
  /**
   * Whether the hints of the server's tools are trusted. Default false: each tool counts as a tool with side effects and
   * needs permission.
   */
  readonly trusted?: boolean;
  /** Path of the file with the login to the server (OAuth). Default: no login. For a server with a `url`. */
  readonly loginFile?: string | undefined;
  /** Whether the server may use the session's model, with permission (sampling). Default false. */
  readonly sampling?: boolean;
}

/** Maximum number of entries in a list of resources. */
const MAX_LISTED_RESOURCES = 200;
const MAX_RESOURCE_LINE_CHARACTERS = 400;
const READ_TOOL_NAME = "read_resource";

/** Returns the tools of a server as models see them. */
export function toolsOf(
  key: string,
  server: SharedServer,
  { tools, hasResources }: Listing,
  { tools: globs = ["*"], timeout = 120, trusted = false }: ServerUse,
): Tool[] {
  const timeoutMs = timeout * 1000;
  const selectedTools = tools.filter(({ name }) => globs.some((glob) => matchesGlob(glob, name)));
  const serverTools = selectedTools.map((tool) => createTool(key, server, tool, timeoutMs, trusted));
  if (
    !hasResources ||
    !globs.some((glob) => matchesGlob(glob, READ_TOOL_NAME)) ||
    selectedTools.some(({ name }) => name === READ_TOOL_NAME)
  )
    return serverTools;
  return [...serverTools, createReadTool(key, server, timeoutMs, trusted)];
}

function createTool(key: string, server: SharedServer, tool: ListedTool, timeoutMs: number, trusted: boolean): Tool {
  const { name, description, inputSchema, readOnly, harmless } = tool;
  const isReadOnly = trusted && readOnly;
  // The server validates arguments with its own schema.
  const schema: StandardSchema<Record<string, unknown>> = {
    "~standard": {
      version: 1,
      vendor: "mcp",
      validate: (value) => ({ value: value as Record<string, unknown> }),
      jsonSchema: { input: () => inputSchema },
    },
  };
  const definedTool = defineTool({
    name: toToolName(key, name),
    description,
    schema,
    kind: isReadOnly ? "read" : "other",
    needsPermission: !(isReadOnly || (trusted && harmless)),
    parallel: isReadOnly,
    run: async (args, context): Promise<ToolOutput> => {
      const result = await server.request("tools/call", { name, arguments: args }, { context, timeoutMs });
      const { text, parts } = toResultContent(result);
      const failed = result["isError"] === true;
      return {
        text: text || (parts.length > 0 ? "" : failed ? "(failed without output)" : "(no output)"),
        parts,
        failed,
      };
    },
  });
  return { ...definedTool, origin: originOf(key, name) };
}

/** Creates the tool that lists and reads the server's resources. */
function createReadTool(key: string, server: SharedServer, timeoutMs: number, trusted: boolean): Tool {
  const definedTool = defineTool({
    name: toToolName(key, READ_TOOL_NAME),
    description: `Read a resource of the server ${key} by its URI. Without a URI, list its resources.`,
    schema: {
      type: "object",
      properties: { uri: { type: "string", description: "URI from the list or a result." } },
    } as const,
    kind: trusted ? "read" : "other",
    parallel: trusted,
    run: async ({ uri = "" }, context) =>
      uri === "" ? listResources(server, context, timeoutMs) : readResource(server, uri, context, timeoutMs),
  });
  return { ...definedTool, origin: originOf(key, READ_TOOL_NAME) };
}

async function readResource(
  server: SharedServer,
  uri: string,
  context: ToolContext,
  timeoutMs: number,
): Promise<ToolOutput> {
  const { contents } = await server.request("resources/read", { uri }, { context, timeoutMs });
  const { text, parts } = toResourceContent(contents);
  return { text: text || "(empty)", parts };
}

async function listResources(server: SharedServer, context: ToolContext, timeoutMs: number): Promise<ToolOutput> {
  const listEntries = async (method: string, key: string): Promise<unknown[]> => {
    const result = await server.request(method, {}, { context, timeoutMs });
    return Array.isArray(result[key]) ? (result[key] as unknown[]) : [];
  };
  const [resources, templates] = await Promise.all([
    listEntries("resources/list", "resources"),
    listEntries("resources/templates/list", "resourceTemplates").catch(() => []),
  ]);
  const entries = [...resources, ...templates];
  const lines = entries.slice(0, MAX_LISTED_RESOURCES).map((resource) => {
    const { uri, uriTemplate, name, description, mimeType } = (resource ?? {}) as Readonly<Record<string, unknown>>;
    const details = [name, mimeType, description].filter(
      (detail): detail is string => typeof detail === "string" && detail !== "",
    );
    return `${String(uri ?? uriTemplate)}  ${details.join(", ")}`
      .replace(/\s*\n\s*/g, " ")
      .slice(0, MAX_RESOURCE_LINE_CHARACTERS);
  });
  if (entries.length > MAX_LISTED_RESOURCES) lines.push(`[... and ${entries.length - MAX_LISTED_RESOURCES} more]`);
  return { text: lines.join("\n") || "(no resources)" };
}
