import { isAbsolute, resolve } from "node:path";
import Router from "@koa/router";
import { SessionNotFoundError } from "gantry";
import type { Context } from "koa";
import { send, type ApiParts } from "./api.js";
import { BodyReader } from "./body.js";
import { runOf, UNDER_WAY } from "./under-way.js";
import { idIn, MAX_PAGE_SIZE, PAGE_SIZE, Query } from "./query.js";
import { Runs } from "./runs.js";
import { Streams } from "./streams.js";
import { SESSION_HEADER } from "./headers.js";
import { wireMessage, wireModel, wireSession } from "./wire.js";

const MAX_MESSAGES = 1000;

/** Every endpoint. Paths are exact: case and final slashes count. */
export function createRouter(parts: ApiParts): Router {
  const { agent } = parts;
  // With the prefix as an option each path would be compiled twice.
  const router = new Router({ sensitive: true, strict: true });
  const streams = new Streams(parts);
  const bodies = new BodyReader(parts.options);
  const runs = new Runs(parts, streams, bodies);
  // What few ask for is loaded with the first of them.
  const asks = () => import("./asks.js");
  router.get("/api/asks", async (ctx) => (await asks()).listAsks(ctx, parts));
  router.get("/api/asks/:id", async (ctx) => (await asks()).showAsk(ctx, parts));
  router.post("/api/asks/:id", async (ctx) => (await asks()).answerAsk(ctx, parts, bodies));

  router.get("/api/health", (ctx) => send(ctx, { status: "ok", version: agent.version }));

  router.get("/api/models", async (ctx) => {
    const entries = await agent.models.list(goneSignal(ctx));
    send(ctx, { models: entries.map(wireModel) });
  });

  router.post("/api/run", (ctx) => runs.serve(ctx));

  router.get("/api/sessions", async (ctx) => {
    const query = new Query(ctx);
    const page = query.integer("page", 1) ?? 1;
    const size = Math.min(query.integer("size", 1) ?? PAGE_SIZE, MAX_PAGE_SIZE);
    const projectDir = query.text("project_dir") ?? "";
    const { sessions, total } = await agent.sessions.list({
      limit: size,
      offset: Math.min((page - 1) * size, Number.MAX_SAFE_INTEGER),
      // Stored without a final slash.
      projectDir: (isAbsolute(projectDir) ? resolve(projectDir) : projectDir) || undefined,
      search: query.text("search") || undefined,
    });
    const under = new Map(
      (await agent.runs.list({ states: UNDER_WAY, limit: 1000 })).map((run) => [run.sessionId, run]),
    );
    send(ctx, { sessions: sessions.map((session) => wireSession(session, under.get(session.id))), total, page, size });
  });

  router.get("/api/sessions/:id", async (ctx) => {
    const id = idOf(ctx);
    const session = await agent.sessions.get(id);
    if (!session) throw new SessionNotFoundError(id);
    // The way from a follow-up, whose usage is its own alone, to the session that lists show.
    ctx.set(SESSION_HEADER, session.chain.root);
    send(ctx, wireSession(session, await runOf(agent, id)));
  });

  router.patch("/api/sessions/:id", async (ctx) => {
    const { updateSession } = await import("./session-update.js");
    const session = await updateSession(agent, idOf(ctx), await bodies.json(ctx), goneSignal(ctx));
    ctx.set(SESSION_HEADER, session.id);
    send(ctx, wireSession(session, await runOf(agent, session.id)));
  });

  router.get("/api/sessions/:id/messages", async (ctx) => {
    const query = new Query(ctx);
    const view = query.oneOf("view", ["all", "model"]) ?? "all";
    const limit = query.integer("limit", 1);
    const messages = await agent.sessions.messages(idOf(ctx), {
      view,
      after: query.integer("after", 0),
      before: query.integer("before", 1),
      limit: limit && Math.min(limit, MAX_MESSAGES),
    });
    send(ctx, { messages: messages.map(wireMessage) });
  });

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

  router.delete("/api/sessions/:id", async (ctx) => {
    await agent.sessions.delete(idOf(ctx));
    send(ctx, { status: "deleted" });
  });

  return router;
}

function idOf(ctx: Context): string {
  const id = idIn(ctx);
  if (id === undefined) throw new SessionNotFoundError("");
  return id;
}

/** Aborts when the client goes away before it is answered. */
function goneSignal({ res }: Context): AbortSignal {
  const gone = new AbortController();
  res.once("close", () => res.writableFinished || gone.abort());
  return gone.signal;
}
