import Router from "@koa/router";
import { SessionNotFoundError } from "gantry";
import type { Context } from "koa";
import { send, type ApiParts } from "./api.js";
import type { PollingClients } from "./asks.js";
import { BodyReader } from "./body.js";
import { pathId } from "./path-id.js";
import { RunEndpoint } from "./runs.js";
import type { Health } from "./shapes.js";
import { StreamLimiter } from "./streams.js";

/** Router with all endpoints. Paths match exactly: case and trailing slashes count. */
export function createRouter(parts: ApiParts): Router {
  const { agent } = parts;
  // The router's prefix option is not used: it compiles each path twice.
  const router = new Router({ sensitive: true, strict: true });
  const streams = new StreamLimiter(parts);
  const idOf = (ctx: Context) => pathId(ctx, SessionNotFoundError);
  const bodies = new BodyReader(parts.options);
  const runs = new RunEndpoint(parts, streams, bodies);
  // Rarely used endpoints are loaded with their first request.
  const asks = () => import("./asks.js");
  let polling: PollingClients | undefined;
  router.get("/api/asks", async (ctx) => {
    const { listAsks, PollingClients } = await asks();
    await listAsks(ctx, parts, (polling ??= new PollingClients(agent)));
  });
  router.get("/api/asks/:id", async (ctx) => (await asks()).showAsk(ctx, parts));
  router.post("/api/asks/:id", async (ctx) => (await asks()).answerAsk(ctx, parts, bodies));

  router.get("/api/health", (ctx) => send<typeof Health>(ctx, { status: "ok", version: agent.version }));

  router.get("/api/ready", async (ctx) => (await import("./ready.js")).showReadiness(ctx, parts));

  router.get("/api/openapi.json", async (ctx) => (await import("./openapi.js")).showDocument(ctx, agent.version));

  router.post("/api/run", (ctx) => runs.serve(ctx));

  router.get("/api/sessions/:id/events", async (ctx) => {
    const { serveEvents } = await import("./events.js");
    await serveEvents(ctx, idOf(ctx), parts, streams);
  });

  const ofRuns = () => import("./run-routes.js");
  router.post("/api/sessions/:id/cancel", async (ctx) => (await ofRuns()).cancelSession(ctx, idOf(ctx), agent));
  router.post("/api/sessions/:id/steer", async (ctx) => (await ofRuns()).steer(ctx, idOf(ctx), agent, bodies));
  router.get("/api/runs", async (ctx) => (await ofRuns()).listRuns(ctx, agent));
  router.get("/api/runs/:id", async (ctx) => (await ofRuns()).showRun(ctx, agent));
  router.post("/api/runs/:id/cancel", async (ctx) => (await ofRuns()).cancelRun(ctx, agent));

  const stored = () => import("./session-routes.js");
  router.get("/api/models", async (ctx) => (await stored()).listModels(ctx, agent));
  router.get("/api/commands", async (ctx) => (await stored()).listCommands(ctx, parts));
  router.get("/api/sessions", async (ctx) => (await stored()).listSessions(ctx, agent));
  router.get("/api/sessions/:id", async (ctx) => (await stored()).showSession(ctx, idOf(ctx), agent));
  router.patch("/api/sessions/:id", async (ctx) => (await stored()).changeSession(ctx, idOf(ctx), parts, bodies));
  router.delete("/api/sessions/:id", async (ctx) => (await stored()).deleteSession(ctx, idOf(ctx), agent));
  router.get("/api/sessions/:id/messages", async (ctx) => (await stored()).listMessages(ctx, idOf(ctx), agent));

  return router;
}
