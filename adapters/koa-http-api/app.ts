import type { IncomingMessage, ServerResponse } from "node:http";
import { hasCode, type Logger } from "gantry";
import Koa, { type Context } from "koa";
import { sendJson, type ApiDependencies } from "./api.js";
import { HttpError, isInternal, toRefusal } from "./errors.js";
import { createRouter } from "./routes.js";
import type { Failure } from "./shapes.js";

/** The API as a request listener of Node's HTTP server. */
export function createApp(dependencies: ApiDependencies): (request: IncomingMessage, response: ServerResponse) => void {
  const { headers, logger } = dependencies;
  const app = new Koa();
  const router = createRouter(dependencies);
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
  app.use((ctx) => {
    // Only requests that no route handled reach this point.
    const allowedMethods = new Set(router.match(ctx.path, ctx.method).path.flatMap((route) => route.methods));
    if (allowedMethods.size === 0) throw new HttpError(404, "not found");
    throw new HttpError(405, "method not allowed", { Allow: [...allowedMethods, "OPTIONS"].sort().join(", ") });
  });
  // Errors that reach this handler belong to broken connections; no client can receive an answer.
  app.on("error", (error: unknown) => logger.debug("a response failed", { error }));
  const handleRequest = app.callback();
  return (request, response) => void handleRequest(request, response);
}

function respondWithError(ctx: Context, error: unknown, logger: Logger): void {
  const refusal = toRefusal(error);
  const { status, message, code, headers } = refusal;
  // The code that throws an `HttpError` logs the failure. Work that ended because its client disconnected is no
  // failure.
  if (isInternal(refusal) && !(error instanceof HttpError) && !ctx.res.closed)
    logger.error("a request failed", { method: ctx.method, path: ctx.path, error });
  if (ctx.headerSent) {
    ctx.res.destroy();
    return;
  }
  if (headers) ctx.set({ ...headers });
  // The last error of each provider, for users.
  const detail = hasCode(error, "model_timeout") && error.reason !== "" ? { detail: error.reason } : {};
  sendJson<typeof Failure>(ctx, { error: message, code, ...detail }, status);
}
