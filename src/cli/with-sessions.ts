import { resolve } from "node:path";
import type { Agent } from "../agent/agent.js";
import { ConfigError } from "../ports/errors.js";
import { openSessions } from "../serve/open-sessions.js";
import { loadConfigWithFlags, type CommandContext, type ConfigFlags } from "./command.js";
import { createCommandLogger } from "./log-writer.js";

/** Opens the stored sessions, calls `callback` and closes the store. Resolves with the result of `callback`. */
export async function withSessions(
  { flags, output }: Pick<CommandContext, "output"> & { flags: ConfigFlags },
  callback: (agent: Agent) => Promise<number>,
): Promise<number> {
  const { loadedConfig, home } = await loadConfigWithFlags(flags);
  const logger = await createCommandLogger(loadedConfig, output);
  const agent = await openSessions({ loadedConfig, home, projectDir: resolve("."), logger });
  try {
    return await callback(agent);
  } finally {
    await agent.close();
  }
}

/** Creates the error for an unknown session, with the wording of the other clients and the id. */
export function createNotFoundError(id: string): ConfigError {
  return new ConfigError(`session not found: ${id}`);
}
