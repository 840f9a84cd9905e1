import { isAbsolute, resolve } from "node:path";
import Router from "@koa/router";
import { SessionNotFoundError } from "gantry";
import type { Context } from "koa";
import { send, type ApiParts } from "./api.js";
import { Query } from "./query.js";
import { Runs } from "./runs.js";
import { SESSION_HEADER, wireMessage, wireModel, wireSession } from "./wire.js";

const PAGE_SIZE = 20;
const MAX_PAGE_SIZE = 100;
const MAX_MESSAGES = 1000;
/** What no id has; asking the store for it would be a waste, or worse. */
// eslint-disable-next-line no-control-regex
const NO_ID = /^$|^.{257,}$|[\u0000-\u001f\u007f]/s;

/** Every endpoint. Paths are exact: case and final slashes count. */
export function createRouter(parts: ApiParts): Router {
  const { agent } = parts;
  // With the prefix as an option each path would be compiled twice.
  const router = new Router({ sensitive: true, strict: true });
  const runs = new Runs(parts);

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
    send(ctx, { sessions: sessions.map(wireSession), total, page, size });
  });

  router.get("/api/sessions/:id", async (ctx) => {
    const id = idOf(ctx);
    const session = await agent.sessions.get(id);
    if (!session) throw new SessionNotFoundError(id);
    // The way from a follow-up, whose usage is its own alone, to the session that lists show.
    ctx.set(SESSION_HEADER, session.chain.root);
    send(ctx, wireSession(session));
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

  router.delete("/api/sessions/:id", async (ctx) => {
    await agent.sessions.delete(idOf(ctx));
    send(ctx, { status: "deleted" });
  });

  return router;
}

function idOf(ctx: Context): string {
  const { id = "" } = ctx["params"] as { id?: string };
  if (NO_ID.test(id)) throw new SessionNotFoundError(id);
  return id;
}

/** Aborts when the client goes away before it is answered. */
function goneSignal({ res }: Context): AbortSignal {
  const gone = new AbortController();
  res.once("close", () => res.writableFinished || gone.abort());
  return gone.signal;
}
