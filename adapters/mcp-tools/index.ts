import { resolve } from "node:path";
import { defineAdapter, option, mcpServerOptions, type McpServer } from "gantry/plugin";
import { McpServers } from "./mcp-servers.js";

export { McpServers, secretsOf, type McpServersOptions, type ServerUse } from "./mcp-servers.js";
export type { LoginOptions } from "./login.js";
export type { ListedPrompt, ListedTool, Listing } from "./listing.js";

const { entries, rule, folderOf } = mcpServerOptions;
// There is no `enabled` option, because a server in a list of tools is always enabled.
const { enabled: _, ...serverEntries } = entries;

/** A single MCP server as a tool source. A config usually declares servers under `mcp_servers`. */
export default defineAdapter({
  kind: "tool-source",
  name: "mcp-tools",
  schema: option.section(
    { ...serverEntries, name: option.text("Name of the server in tool names and rules.", { required: true }) },
    { rule },
  ),
  create: ({ name, command, args, env, cwd, url = "", headers, type, tools, timeout, trusted, sampling }, context) => {
    const httpServer = { name, url, headers, ...(type !== undefined && type !== "stdio" && { type }) };
    const server: McpServer =
      command === undefined
        ? httpServer
        : {
            name,
            command: resolveCommand(command, context.configDir),
            args,
            env,
            ...folderOf(cwd, context),
          };
    return new McpServers({ logger: context.logger }).source(server, { tools, timeout, trusted, sampling });
  },
});

/** Resolves a command with a slash against `folder`. Other commands are looked up in the PATH. */
function resolveCommand(command: string, folder: string): string {
  return command.includes("/") ? resolve(folder, command) : command;
}
