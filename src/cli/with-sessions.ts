import { resolve } from "node:path";
import type { Agent } from "../agent/agent.js";
import { createLogger } from "../base/log.js";
import { ConfigError } from "../ports/errors.js";
import { openSessions } from "../serve/open-sessions.js";
import { loadConfigWithFlags, type CommandContext, type ConfigFlags } from "./command.js";

/** Opens the stored sessions, runs `work` and closes the store. Resolves with the result of `work`. */
export async function withSessions(
  { flags, output }: Pick<CommandContext, "output"> & { flags: ConfigFlags },
  callback: (agent: Agent) => Promise<number>,
): Promise<number> {
  const { loaded, home } = await loadConfigWithFlags(flags);
  const { config, secrets } = loaded;
  const logger = createLogger({
    level: config.log.level,
    write: (line) => output.report(line),
    secrets: () => secrets,
  });
  const agent = await openSessions({ loaded, home, projectDir: resolve("."), logger });
  try {
    return await callback(agent);
  } finally {
    await agent.close();
  }
}

/** Error for an unknown session. It has the same wording as the other clients, and names the id. */
export function createNotFoundError(id: string): ConfigError {
  return new ConfigError(`session not found: ${id}`);
}
