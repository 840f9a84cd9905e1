import * as option from "../plugin/options.js";
import { mcpServerOptions } from "../plugin/mcp-server-options.js";

const { entries, rule } = mcpServerOptions;
const mcpServer = option.section(entries, { rule });

/** The MCP servers of sessions. See docs/mcp.md. */
export const mcpServers = option.map(mcpServer, "MCP servers (Model Context Protocol), by name.", {
  // Names in this form are the same in tool names and rules.
  fits: (name) => /^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$/.test(name) && name.length <= 32,
  expected: "a name of 1 to 32 letters, digits, - and single _",
});
