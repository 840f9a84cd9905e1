import type { Command } from "./command.js";

/** `gantry mcp ...`: each of its commands is loaded when it is called for. */
export const run: Command = async (context) =>
  (await (context.name === "mcp serve" ? import("./mcp-serve.js") : import("./mcp-list.js"))).run(context);
