import type Router from "@koa/router";
import { SessionNotFoundError } from "gantry";
import type { ReadinessProblem } from "gantry/plugin";
import type { Context } from "koa";
import { sendJson, type ApiDependencies } from "./api.js";
import type { AllEvents } from "./all-events.js";
import type { PollingClients } from "./asks.js";
import type { BodyReader } from "./body.js";
import { requireCapacity } from "./errors.js";
import { MCP_CALLBACK_PATH } from "./mcp-callback-path.js";
import { readPathId } from "./query.js";
import { addRewindRoutes } from "./rewind-paths.js";
import type { NotReady, Ready } from "./shapes.js";
import type { StreamLimiter } from "./stream-limiter.js";

const readId = (ctx: Context) => readPathId(ctx, SessionNotFoundError);

/** Adds the endpoints besides `/api/run` and `/api/health` to a router, and returns it. */
export function addRoutes(
  // A router with the option `prefix` would compile each path twice.
  router: Router,
  dependencies: ApiDependencies,
  bodyReader: BodyReader,
  streamLimiter: StreamLimiter,
): Router {
  const { agent } = dependencies;
  // Each group of endpoints is loaded with its first request.
  const loadAsks = () => import("./asks.js");
  let pollingClients: PollingClients | undefined;
  router.get("/api/asks", async (ctx) => {
    const { listAsks, PollingClients } = await loadAsks();
    await listAsks(ctx, dependencies, (pollingClients ??= new PollingClients(agent)));
  });
  router.get("/api/asks/:id", async (ctx) => (await loadAsks()).showAsk(ctx, dependencies));
  router.post("/api/asks/:id", async (ctx) => (await loadAsks()).answerAsk(ctx, dependencies, bodyReader));

  router.get("/api/ready", (ctx) => showReadiness(ctx, dependencies));

  router.get("/api/openapi.json", async (ctx) => (await import("./openapi.js")).showDocument(ctx, agent.version));

  const loadRuns = () => import("./run-routes.js");
  router.post("/api/sessions/:id/cancel", async (ctx) => (await loadRuns()).cancelSession(ctx, readId(ctx), agent));
  router.post("/api/sessions/:id/background", async (ctx) =>
    (await loadRuns()).moveToBackground(ctx, readId(ctx), agent, bodyReader),
  );
  router.post("/api/sessions/:id/steer", async (ctx) => (await loadRuns()).steer(ctx, readId(ctx), agent, bodyReader));
  router.get("/api/runs", async (ctx) => (await loadRuns()).listRuns(ctx, agent));
  router.get("/api/runs/:id", async (ctx) => (await loadRuns()).showRun(ctx, agent));
  router.post("/api/runs/:id/cancel", async (ctx) => (await loadRuns()).cancelRun(ctx, agent));

  const loadMcp = () => import("./mcp-routes.js");
  router.get("/api/mcp-servers", async (ctx) => (await loadMcp()).listMcpServers(ctx, agent));
  router.get(MCP_CALLBACK_PATH, async (ctx) => (await loadMcp()).finishMcpLogin(ctx, dependencies));
  router.post("/api/mcp-servers/:id/login", async (ctx) =>
    (await loadMcp()).beginMcpLogin(ctx, dependencies, bodyReader),
  );
  router.post("/api/mcp-servers/:id/logout", async (ctx) => (await loadMcp()).logOutOfMcpServer(ctx, dependencies));

  router.get("/api/search", async (ctx) => (await import("./search.js")).searchMessages(ctx, agent));

  const loadSessions = () => import("./session-routes.js");
  router.get("/api/models", async (ctx) => (await loadSessions()).listModels(ctx, agent));
  router.get("/api/commands", async (ctx) => (await loadSessions()).listCommands(ctx, dependencies));
  router.get("/api/files", async (ctx) => (await import("./files-routes.js")).listFiles(ctx, dependencies));
  router.get("/api/sessions", async (ctx) => (await loadSessions()).listSessions(ctx, agent));
  router.get("/api/sessions/:id", async (ctx) => (await loadSessions()).showSession(ctx, readId(ctx), agent));
  router.patch("/api/sessions/:id", async (ctx) =>
    (await loadSessions()).changeSession(ctx, readId(ctx), dependencies, bodyReader),
  );
  router.delete("/api/sessions/:id", async (ctx) => (await loadSessions()).deleteSession(ctx, readId(ctx), agent));
  router.get("/api/sessions/:id/messages", async (ctx) => (await loadSessions()).listMessages(ctx, readId(ctx), agent));

  addRewindRoutes(router, dependencies, bodyReader, readId);
  addStreams(router, dependencies, streamLimiter);
  addWorkRoutes(router, dependencies, bodyReader, streamLimiter);
  return router;
}

/** Adds the event streams of sessions. */
function addStreams(router: Router, dependencies: ApiDependencies, streamLimiter: StreamLimiter): void {
  router.get("/api/sessions/:id/events", async (ctx) => {
    const { serveEvents } = await import("./events.js");
    await serveEvents(ctx, readId(ctx), dependencies, streamLimiter);
  });

  let allEvents: AllEvents | undefined;
  router.get("/api/events", async (ctx) => {
    const { AllEvents } = await import("./all-events.js");
    await (allEvents ??= new AllEvents(dependencies, streamLimiter)).serve(ctx);
  });
}

/** Adds the endpoints of a session's context, of people's commands, of worktrees and of file previews. */
function addWorkRoutes(
  router: Router,
  dependencies: ApiDependencies,
  bodyReader: BodyReader,
  streamLimiter: StreamLimiter,
): void {
  router.get("/api/sessions/:id/context", async (ctx) =>
    (await import("./context-routes.js")).showContext(ctx, readId(ctx), dependencies.agent),
  );
  router.post("/api/sessions/:id/shell", async (ctx) => {
    requireCapacity(dependencies);
    const { runShellCommand } = await import("./shell-routes.js");
    await runShellCommand(ctx, readId(ctx), dependencies, bodyReader, streamLimiter);
  });
  const loadWorktrees = () => import("./worktree-routes.js");
  router.get("/api/sessions/:id/worktree", async (ctx) =>
    (await loadWorktrees()).showWorktree(ctx, readId(ctx), dependencies),
  );
  router.post("/api/sessions/:id/worktree/apply", async (ctx) =>
    (await loadWorktrees()).applyWorktree(ctx, readId(ctx), dependencies, bodyReader),
  );
  router.get("/api/files/content", async (ctx) =>
    (await import("./file-content.js")).showFileContent(ctx, dependencies),
  );
}

/** Problems that this transport reports: the agent itself may still be ready. */
const DRAINING_PROBLEM: ReadinessProblem = { code: "draining", message: "the server is about to stop" };
const OVERLOADED_PROBLEM: ReadinessProblem = { code: "overloaded", message: "the server is overloaded" };

/** `GET /api/ready`: whether a load balancer should send runs to this server. */
async function showReadiness(ctx: Context, { agent, stopSignal, isOverloaded }: ApiDependencies): Promise<void> {
  const { reasons } = stopSignal.aborted ? { reasons: [DRAINING_PROBLEM] } : await agent.readiness();
  const problems = isOverloaded() ? [...reasons, OVERLOADED_PROBLEM] : reasons;
  if (problems.length === 0) {
    sendJson<typeof Ready>(ctx, { status: "ready", version: agent.version });
    return;
  }
  ctx.set("Retry-After", "1");
  sendJson<typeof NotReady>(
    ctx,
    { error: "not ready", code: "not_ready", status: "not_ready", reasons: problems },
    503,
  );
}
