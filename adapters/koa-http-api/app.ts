import type { IncomingMessage, ServerResponse } from "node:http";
import Router from "@koa/router";
import { hasCode, type Logger } from "gantry";
import { getLogFields, logRefusal } from "gantry/http";
import Koa, { type Context, type Middleware } from "koa";
import { sendJson, type ApiDependencies } from "./api.js";
import { BodyReader } from "./body.js";
import { HttpError, isInternal, requireCapacity, toRefusal } from "./errors.js";
import { RunEndpoint } from "./runs.js";
import type { Failure, Health, UndoConflict, WorktreeConflict } from "./shapes.js";
import { StreamLimiter } from "./stream-limiter.js";

/** Paths match exactly: case and trailing slashes count. */
const createRouter = () => new Router({ sensitive: true, strict: true });

/** The API as a request listener of Node's HTTP server. */
export function createApp(dependencies: ApiDependencies): (request: IncomingMessage, response: ServerResponse) => void {
  const { agent, headers, logger } = dependencies;
  const app = new Koa();
  const bodyReader = new BodyReader(dependencies.options);
  const streamLimiter = new StreamLimiter(dependencies);
  const runEndpoint = new RunEndpoint(dependencies, streamLimiter, bodyReader);
  const router = createRouter();
  router.get("/api/health", (ctx) => sendJson<typeof Health>(ctx, { status: "ok", version: agent.version }));
  router.post("/api/run", (ctx) => {
    requireCapacity(dependencies);
    return runEndpoint.serve(ctx);
  });
  // The router compiles each path when it is added. A first run does not wait for the paths of the other endpoints.
  let otherEndpoints: Promise<Router> | undefined;
  const loadOtherEndpoints = () =>
    (otherEndpoints ??= import("./routes.js").then(({ addRoutes }) =>
      addRoutes(createRouter(), dependencies, bodyReader, streamLimiter),
    ));
  app.use(async (ctx, next) => {
    ctx.set(headers);
    try {
      if (ctx.method === "OPTIONS") {
        ctx.status = 204;
        // Only browsers send preflights, and browsers cache the answer: the code is loaded on demand.
        const { createPreflightHeaders } = await import("./preflight.js");
        ctx.set({ ...createPreflightHeaders(ctx, dependencies), ...dependencies.options.headers });
        return;
      }
      await next();
    } catch (error) {
      respondWithError(ctx, error, logger);
    }
  });
  app.use(router.routes());
  app.use(async (ctx) => {
    const otherRouter = await loadOtherEndpoints();
    await (otherRouter.routes() as Middleware)(ctx, () => rejectUnrouted(ctx, [router, otherRouter]));
  });
  // Errors that reach this handler belong to broken connections; no client can receive an answer.
  app.on("error", (error: unknown) => logger.debug("a response failed", { error }));
  const handleRequest = app.callback();
  return (request, response) => void handleRequest(request, response);
}

/** Throws the error for a request that no route handled. */
function rejectUnrouted(ctx: Context, routers: readonly Router[]): never {
  const routes = routers.flatMap((router) => router.match(ctx.path, ctx.method).path);
  const allowedMethods = new Set(routes.flatMap((route) => route.methods));
  if (allowedMethods.size === 0) throw new HttpError(404, "not found");
  throw new HttpError(405, "method not allowed", { Allow: [...allowedMethods, "OPTIONS"].sort().join(", ") });
}

function respondWithError(ctx: Context, error: unknown, logger: Logger): void {
  const refusal = toRefusal(error);
  const { status, message, code, headers } = refusal;
  // The code that throws an `HttpError` logs the failure. Work that ended because its client disconnected is no
  // failure.
  if (isInternal(refusal) && !(error instanceof HttpError) && !ctx.res.closed)
    logger.error("a request failed", { method: ctx.method, path: ctx.path, ...getLogFields(ctx.req), error });
  else logRefusal(logger, ctx.req, refusal);
  if (ctx.headerSent) {
    ctx.res.destroy();
    return;
  }
  if (headers) ctx.set({ ...headers });
  // The last error of each provider, for users.
  const detail = hasCode(error, "model_timeout") && error.reason !== "" ? { detail: error.reason } : {};
  // The files that prevent an undo, or the changes of a worktree.
  if (hasCode(error, "undo_conflict"))
    sendJson<typeof UndoConflict>(ctx, { error: message, code: "undo_conflict", files: error.files }, status);
  else if (hasCode(error, "worktree_conflict"))
    sendJson<typeof WorktreeConflict>(ctx, { error: message, code: "worktree_conflict", files: error.files }, status);
  else sendJson<typeof Failure>(ctx, { error: message, code, ...detail }, status);
}
