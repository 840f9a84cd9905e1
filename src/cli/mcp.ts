import type { Command } from "./command.js";

/** `gantry mcp ...`: loads only the requested subcommand. */
export const run: Command = async (context) =>
  (await (context.name === "mcp serve" ? import("./mcp-serve.js") : import("./mcp-list.js"))).run(context);
