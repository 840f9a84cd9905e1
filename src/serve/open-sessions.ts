import { Agent } from "../agent/agent.js";
import { createHome, type ComposeOptions } from "./compose.js";
import { createContainer } from "./container.js";
import { FILE_HISTORY, SESSION_DRIVER, WORKTREES } from "./tokens.js";

/** Creates an agent with the configured store only, for reading sessions. The caller closes it. */
export async function openSessions(options: ComposeOptions): Promise<Agent> {
  createHome(options.home);
  const { projectDir, logger, loadedConfig } = options;
  const container = createContainer(options);
  const driver = await container.resolve(SESSION_DRIVER);
  const fileHistory = container.resolve(FILE_HISTORY);
  const { permissions, session } = loadedConfig.config;
  const agent = new Agent({
    driver,
    fileHistory,
    worktrees: container.resolve(WORKTREES),
    providers: [],
    projectDir,
    logger,
    mode: permissions.mode,
    rewind: session.rewind,
  });
  await agent.open();
  return agent;
}
