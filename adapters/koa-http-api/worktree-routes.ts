import type { Context } from "koa";
import { createDisconnectController, sendJson, type ApiDependencies } from "./api.js";
import { Fields, type BodyReader } from "./body.js";
import { requirePerson } from "./person.js";
import type { Applied, SessionWorktree } from "./shapes.js";
import { ApplyRequest } from "./worktree-shapes.js";

/** `GET /api/sessions/{id}/worktree`. */
export async function showWorktree(ctx: Context, id: string, { agent }: ApiDependencies): Promise<void> {
  const worktree = await agent.sessions.worktree(id);
  const { folder = "", projectDir = "", base = "" } = worktree ?? {};
  sendJson<typeof SessionWorktree>(ctx, { worktree: worktree ? { folder, project_dir: projectDir, base } : null });
}

/** `POST /api/sessions/{id}/worktree/apply`. */
export async function applyWorktree(
  ctx: Context,
  id: string,
  dependencies: ApiDependencies,
  bodyReader: BodyReader,
): Promise<void> {
  requirePerson(ctx, dependencies);
  const { signal } = createDisconnectController(ctx);
  const dryRun = new Fields(ApplyRequest, await bodyReader.readJson(ctx)).get("dry_run");
  const files = await dependencies.agent.sessions.applyWorktree(id, { dryRun, signal });
  sendJson<typeof Applied>(ctx, { files });
}
