import * as option from "../plugin/options.js";
import { toolServerOptions } from "../plugin/mcp-server-options.js";

const { entries, rule } = toolServerOptions;
const mcpServer = option.section(entries, { rule });

/** The servers of tools that sessions have; see docs/mcp.md. */
export const mcpServers = option.map(mcpServer, "Servers of tools that speak the Model Context Protocol, by name.", {
  // So that they are called the same in names of tools and in rules.
  fits: (name) => /^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$/.test(name) && name.length <= 32,
  expected: "a name of 1 to 32 letters, digits, - and single _",
});
