import type { mcpServe } from "./descriptions/mcp.js";
import type { CommandHandler } from "./command.js";
import { run as serve } from "./serve.js";

/** `gantry mcp serve`: serves one MCP client at standard input and output, and exits with it. */
export const run: CommandHandler<typeof mcpServe.flags> = ({ flags, ...context }) => {
  context.output.redirectConsoleToStderr();
  return serve({ ...context, flags: { ...flags, transport: ["mcp-stdio"] } });
};
