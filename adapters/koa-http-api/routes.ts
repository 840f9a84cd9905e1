import Router from "@koa/router";
import { SessionNotFoundError } from "gantry";
import type { Context } from "koa";
import { sendJson, type ApiDependencies } from "./api.js";
import type { PollingClients } from "./asks.js";
import { BodyReader } from "./body.js";
import { readPathId } from "./path-id.js";
import { RunEndpoint } from "./runs.js";
import type { Health } from "./shapes.js";
import { StreamLimiter } from "./stream-limiter.js";

/** Router with all endpoints. Paths match exactly: case and trailing slashes count. */
export function createRouter(dependencies: ApiDependencies): Router {
  const { agent } = dependencies;
  // The router's prefix option is not used: it compiles each path twice.
  const router = new Router({ sensitive: true, strict: true });
  const streamLimiter = new StreamLimiter(dependencies);
  const readId = (ctx: Context) => readPathId(ctx, SessionNotFoundError);
  const bodyReader = new BodyReader(dependencies.options);
  const runEndpoint = new RunEndpoint(dependencies, streamLimiter, bodyReader);
  // Rarely used endpoints are loaded with their first request.
  const loadAsks = () => import("./asks.js");
  let pollingClients: PollingClients | undefined;
  router.get("/api/asks", async (ctx) => {
    const { listAsks, PollingClients } = await loadAsks();
    await listAsks(ctx, dependencies, (pollingClients ??= new PollingClients(agent)));
  });
  router.get("/api/asks/:id", async (ctx) => (await loadAsks()).showAsk(ctx, dependencies));
  router.post("/api/asks/:id", async (ctx) => (await loadAsks()).answerAsk(ctx, dependencies, bodyReader));

  router.get("/api/health", (ctx) => sendJson<typeof Health>(ctx, { status: "ok", version: agent.version }));

  router.get("/api/ready", async (ctx) => (await import("./ready.js")).showReadiness(ctx, dependencies));

  router.get("/api/openapi.json", async (ctx) => (await import("./openapi.js")).showDocument(ctx, agent.version));

  router.post("/api/run", (ctx) => runEndpoint.serve(ctx));

  router.get("/api/sessions/:id/events", async (ctx) => {
    const { serveEvents } = await import("./events.js");
    await serveEvents(ctx, readId(ctx), dependencies, streamLimiter);
  });

  const loadRuns = () => import("./run-routes.js");
  router.post("/api/sessions/:id/cancel", async (ctx) => (await loadRuns()).cancelSession(ctx, readId(ctx), agent));
  router.post("/api/sessions/:id/steer", async (ctx) => (await loadRuns()).steer(ctx, readId(ctx), agent, bodyReader));
  router.get("/api/runs", async (ctx) => (await loadRuns()).listRuns(ctx, agent));
  router.get("/api/runs/:id", async (ctx) => (await loadRuns()).showRun(ctx, agent));
  router.post("/api/runs/:id/cancel", async (ctx) => (await loadRuns()).cancelRun(ctx, agent));

  const loadSessions = () => import("./session-routes.js");
  router.get("/api/models", async (ctx) => (await loadSessions()).listModels(ctx, agent));
  router.get("/api/commands", async (ctx) => (await loadSessions()).listCommands(ctx, dependencies));
  router.get("/api/sessions", async (ctx) => (await loadSessions()).listSessions(ctx, agent));
  router.get("/api/sessions/:id", async (ctx) => (await loadSessions()).showSession(ctx, readId(ctx), agent));
  router.patch("/api/sessions/:id", async (ctx) =>
    (await loadSessions()).changeSession(ctx, readId(ctx), dependencies, bodyReader),
  );
  router.delete("/api/sessions/:id", async (ctx) => (await loadSessions()).deleteSession(ctx, readId(ctx), agent));
  router.get("/api/sessions/:id/messages", async (ctx) => (await loadSessions()).listMessages(ctx, readId(ctx), agent));

  return router;
}
