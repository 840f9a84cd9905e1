import { rm } from "node:fs/promises";
import { ConfigError } from "../ports/errors.js";
import { getHomeFolder } from "../serve/config.js";
import { getLoginFile } from "../serve/mcp-servers.js";
import type { CommandHandler } from "./command.js";
import type { mcpLogout } from "./descriptions/mcp.js";

/** `gantry mcp logout NAME`: deletes the stored login to a server, which may no longer be in the config. */
export const run: CommandHandler<typeof mcpLogout.flags> = async ({ args, output }) => {
  const [name = "", ...otherArgs] = args;
  if (!/^[\w-]{1,32}$/.test(name) || otherArgs.length > 0)
    throw new ConfigError("mcp logout: expected the name of a server");
  try {
    await rm(getLoginFile(getHomeFolder(), name));
    output.report(`logged out of ${name}`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    output.report(`${name}: no login is stored`);
  }
  return 0;
};
