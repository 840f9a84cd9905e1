/** Path to which authorization servers redirect browsers after a login to an MCP server. */
export const MCP_CALLBACK_PATH = "/api/mcp-servers/callback";
