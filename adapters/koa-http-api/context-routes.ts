import type { Agent } from "gantry";
import type { Context } from "koa";
import { createDisconnectController, sendJson } from "./api.js";
import type { SessionContext } from "./shapes.js";

/** `GET /api/sessions/{id}/context`. */
export async function showContext(ctx: Context, id: string, agent: Agent): Promise<void> {
  const { signal } = createDisconnectController(ctx);
  const { window, used, compactionAt, estimated, parts } = await agent.sessions.context(id, { signal });
  sendJson<typeof SessionContext>(ctx, { window, used, compaction_at: compactionAt, estimated, parts });
}
