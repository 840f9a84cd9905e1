import { defineAdapter, option } from "gantry/plugin";
import { McpStdioTransport } from "./mcp-stdio-transport.js";

export { McpStdioTransport, type McpStdioStreams } from "./mcp-stdio-transport.js";

export default defineAdapter({
  kind: "transport",
  name: "mcp-stdio",
  schema: option.section({}),
  create: (_, { logger }) => new McpStdioTransport(logger),
});
