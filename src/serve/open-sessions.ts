import { Agent } from "../agent.js";
import { Builder } from "./builder.js";
import { makeHome, type ComposeOptions } from "./compose.js";

/** An agent that has the configured store and nothing else, for whoever looks at sessions; whoever asks for it closes it. */
export async function openSessions(options: ComposeOptions): Promise<Agent> {
  makeHome(options.home);
  const { projectDir, logger, loaded } = options;
  const builder = new Builder(options);
  const driver = await builder.driver();
  const fileHistory = builder.fileHistory();
  const { mode } = loaded.config.permissions;
  const agent = new Agent({ driver, providers: [], projectDir, logger, mode, fileHistory });
  await agent.open();
  return agent;
}
