export { McpServers, secretsOf, type McpServersOptions, type ServerUse } from "./mcp-servers.js";
export type { ListedPrompt, ListedTool, Listing } from "./listing.js";
