import type { CommandDescription } from "../command-description.js";
import { CONFIG_FLAGS, JSON_FLAG } from "./flags.js";

export const mcpList = {
  name: "mcp list",
  summary: "start the configured MCP servers and list their tools and prompts",
  usage: ["[options]"],
  flags: { ...JSON_FLAG, ...CONFIG_FLAGS },
  details:
    "The servers start in this folder, as for a session here, and are stopped afterwards. The exit code is 1 if one of them fails.",
} as const satisfies CommandDescription;

export const mcpLogin = {
  name: "mcp login",
  summary: "log in to a configured MCP server, in the browser",
  usage: ["NAME [options]"],
  flags: CONFIG_FLAGS,
  details:
    "For servers with a url that ask for a login (OAuth). gantry stores and refreshes the tokens. " +
    "If the browser runs on another machine, paste the address of its redirect.",
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
  details: "For MCP clients, which start it in the folder that it works on.",
} as const satisfies CommandDescription;

export const mcp = {
  name: "mcp",
  summary: "MCP servers (Model Context Protocol)",
  usage: ["COMMAND [options]"],
  flags: {},
  commands: { list: mcpList, login: mcpLogin, logout: mcpLogout, serve: mcpServe },
} as const satisfies CommandDescription;
