import type { ReadinessProblem } from "gantry/plugin";
import type { Context } from "koa";
import { sendJson, type ApiDependencies } from "./api.js";
import type { NotReady, Ready } from "./shapes.js";

/** Problem that this transport reports: the agent itself may still be ready. */
const DRAINING_PROBLEM: ReadinessProblem = { code: "draining", message: "the server is about to stop" };

/** `GET /api/ready`: whether a load balancer should send runs to this server. */
export async function showReadiness(ctx: Context, { agent, stopSignal }: ApiDependencies): Promise<void> {
  const { ready, reasons } = stopSignal.aborted
    ? { ready: false, reasons: [DRAINING_PROBLEM] }
    : await agent.readiness();
  if (ready) {
    sendJson<typeof Ready>(ctx, { status: "ready", version: agent.version });
    return;
  }
  ctx.set("Retry-After", "1");
  sendJson<typeof NotReady>(ctx, { error: "not ready", code: "not_ready", status: "not_ready", reasons }, 503);
}
