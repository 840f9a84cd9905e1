import { resolve } from "node:path";
import { defineAdapter, option, toolServerOptions, type ToolServer } from "gantry/plugin";
import { McpServers } from "./mcp-servers.js";

export { McpServers, secretsOf, type McpServersOptions, type ServerUse } from "./mcp-servers.js";
export type { ListedPrompt, ListedTool, Listing } from "./listing.js";

const { entries, rule, folderOf } = toolServerOptions;
// Who is named in a list of tools is wanted.
const { enabled: _, ...own } = entries;

/** One server as a source of tools; a config names its servers under `mcp_servers`. */
export default defineAdapter({
  kind: "tool-source",
  name: "mcp-tools",
  schema: option.section(
    { ...own, name: option.text("What it is called in names of tools and in rules.", { required: true }) },
    { rule },
  ),
  create: ({ name, command, args, env, cwd, url = "", headers, type, tools, timeout, trusted }, context) => {
    const address = { name, url, headers, ...(type !== undefined && type !== "stdio" && { type }) };
    const server: ToolServer =
      command === undefined
        ? address
        : {
            name,
            command: commandOf(command, context.configDir),
            args,
            env,
            ...folderOf(cwd, context),
          };
    return new McpServers({ logger: context.logger }).source(server, { tools, timeout, trusted });
  },
});

/** What stands in the PATH has no slash. */
function commandOf(command: string, folder: string): string {
  return command.includes("/") ? resolve(folder, command) : command;
}
