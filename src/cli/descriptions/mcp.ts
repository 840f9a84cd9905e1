import type { CommandDescription } from "../command-description.js";
import { CONFIG_FLAGS, JSON_FLAG } from "./flags.js";

export const mcpList = {
  name: "mcp list",
  summary: "start the configured MCP servers and list their tools and prompts",
  usage: ["[options]"],
  flags: { ...JSON_FLAG, ...CONFIG_FLAGS },
} as const satisfies CommandDescription;

export const mcpLogin = {
  name: "mcp login",
  summary: "log in to a configured MCP server, in the browser",
  usage: ["NAME [options]"],
  flags: CONFIG_FLAGS,
} as const satisfies CommandDescription;

export const mcpLogout = {
  name: "mcp logout",
  summary: "delete the stored login to an MCP server",
  usage: ["NAME"],
  flags: {},
} as const satisfies CommandDescription;

export const mcpServe = {
  name: "mcp serve",
  summary: "serve the agent as an MCP server over standard input and output",
  usage: ["[options]"],
  flags: CONFIG_FLAGS,
} as const satisfies CommandDescription;

export const mcp = {
  name: "mcp",
  summary: "MCP servers (Model Context Protocol)",
  usage: ["COMMAND [options]"],
  flags: {},
  commands: { list: mcpList, login: mcpLogin, logout: mcpLogout, serve: mcpServe },
} as const satisfies CommandDescription;
