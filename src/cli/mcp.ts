import type { CommandHandler } from "./command.js";

/** `gantry mcp ...`: loads only the requested subcommand. */
export const run: CommandHandler = async (context) =>
  (await (context.name === "mcp serve" ? import("./mcp-serve.js") : import("./mcp-list.js"))).run(context);
