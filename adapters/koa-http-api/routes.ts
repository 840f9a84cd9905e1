import { isAbsolute, resolve } from "node:path";
import Router from "@koa/router";
import { RunNotFoundError, SessionNotFoundError, type Agent, type RunRecord, type RunState } from "gantry";
import type { Context } from "koa";
import { send, type ApiParts } from "./api.js";
import { HttpError } from "./errors.js";
import { BodyReader } from "./body.js";
import { Fields } from "./fields.js";
import { idIn, MAX_PAGE_SIZE, PAGE_SIZE, Query } from "./query.js";
import { Runs } from "./runs.js";
import { Streams } from "./streams.js";
import { SESSION_HEADER } from "./headers.js";
import { wireMessage, wireModel, wireRun, wireSession } from "./wire.js";

const MAX_MESSAGES = 1000;
const STATES: readonly RunState[] = ["queued", "running", "waiting", "finished", "failed", "cancelled", "interrupted"];

const UNDER_WAY: readonly RunState[] = ["running", "waiting"];

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

  router.post("/api/sessions/:id/cancel", async (ctx) => {
    const run = await runOf(agent, idOf(ctx));
    send(ctx, { run: run ? wireRun(await agent.runs.cancel(run.id)) : null });
  });

  router.post("/api/sessions/:id/steer", async (ctx) => {
    const id = idOf(ctx);
    const text = new Fields(await bodies.json(ctx)).text("message");
    if (text === undefined || text.trim() === "")
      throw new HttpError(400, "message is required", {}, "message_required");
    const run = await runOf(agent, id);
    if (!run || !(await agent.runs.steer(run.id, text))) throw new HttpError(409, "no run to steer", {}, "no_run");
    send(ctx, { run_id: run.id });
  });

  router.get("/api/runs", async (ctx) => {
    const query = new Query(ctx);
    const state = query.oneOf("state", STATES);
    const runs = await agent.runs.list({
      limit: Math.min(query.integer("size", 1) ?? PAGE_SIZE, MAX_PAGE_SIZE),
      sessionId: query.text("session_id") || undefined,
      states: state && [state],
      before: await placeOf(agent, query.text("before")),
    });
    send(ctx, { runs: runs.map(wireRun) });
  });

  router.get("/api/runs/:id", async (ctx) => {
    const run = await agent.runs.get(runIdOf(ctx));
    if (!run) throw new RunNotFoundError(runIdOf(ctx));
    send(ctx, wireRun(run));
  });

  router.post("/api/runs/:id/cancel", async (ctx) => send(ctx, wireRun(await agent.runs.cancel(runIdOf(ctx)))));

  router.delete("/api/sessions/:id", async (ctx) => {
    await agent.sessions.delete(idOf(ctx));
    send(ctx, { status: "deleted" });
  });

  return router;
}

/** The run that is under way in a session; undefined when there is none. */
async function runOf(agent: Agent, sessionId: string): Promise<RunRecord | undefined> {
  const [run] = await agent.runs.list({ sessionId, states: UNDER_WAY, limit: 1 });
  return run;
}

/** Where the page behind a run begins. */
async function placeOf(agent: Agent, id: string | undefined): Promise<RunRecord | undefined> {
  if (id === undefined) return undefined;
  const run = await agent.runs.get(id);
  if (!run) throw new HttpError(400, "invalid query parameter: before", {}, "invalid_query");
  return run;
}

function runIdOf(ctx: Context): string {
  const id = idIn(ctx);
  if (id === undefined) throw new RunNotFoundError("");
  return id;
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
