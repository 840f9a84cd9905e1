import type { Context } from "koa";
import { send, type ApiParts } from "./api.js";
import { projectFolder } from "./projects.js";
import { Query } from "./query.js";
import type { CommandList } from "./shapes.js";

/** `GET /api/commands`. */
export async function listCommands(ctx: Context, { agent, options }: ApiParts): Promise<void> {
  const query = new Query(ctx);
  // What is not set is "" in clients of typed languages.
  const sessionId = query.text("session_id") || undefined;
  const given = query.text("project_dir") || undefined;
  const rules = { projectDir: agent.projectDir, roots: options.projectRoots, denied: options.deniedPaths };
  const projectDir = given === undefined ? undefined : await projectFolder(given, rules);
  send<typeof CommandList>(ctx, { commands: await agent.commands({ sessionId, projectDir }) });
}
