import type { CommandHandler } from "./command.js";

/** `gantry mcp ...`: loads only the requested subcommand. */
export const run: CommandHandler = async (context) => (await load(context.name)).run(context);

function load(name: string): Promise<{ run: CommandHandler }> {
  if (name === "mcp serve") return import("./mcp-serve.js");
  if (name === "mcp login") return import("./mcp-login.js");
  return name === "mcp logout" ? import("./mcp-logout.js") : import("./mcp-list.js");
}
