import type { About } from "../about.js";
import { CONFIG_FLAGS, JSON_FLAG } from "./flags.js";

export const mcpList = {
  name: "mcp list",
  summary: "start the servers of tools that the config names, and say what they offer",
  usage: ["[options]"],
  flags: { ...JSON_FLAG, ...CONFIG_FLAGS },
  details:
    "They are started in this folder, as a session here would have them, and ended again. Exit code 1 where one of them fails.",
} as const satisfies About;

export const mcpServe = {
  name: "mcp serve",
  summary: "be a server of tools over standard input and output: other agents run this one",
  usage: ["[options]"],
  flags: { ...CONFIG_FLAGS },
  details: "For clients of the Model Context Protocol, which start it in the folder that it works on.",
} as const satisfies About;

export const mcp = {
  name: "mcp",
  summary: "servers of tools (Model Context Protocol)",
  usage: ["COMMAND [options]"],
  flags: {},
  commands: { list: mcpList, serve: mcpServe },
} as const satisfies About;
