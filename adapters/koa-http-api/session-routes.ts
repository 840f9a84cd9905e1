import { isAbsolute, resolve } from "node:path";
import { SessionNotFoundError, type Agent } from "gantry";
import type { Context } from "koa";
import { send, type ApiDependencies } from "./api.js";
import type { BodyReader } from "./body.js";
import { SESSION_HEADER } from "./headers.js";
import { resolveProjectFolder } from "./projects.js";
import { MAX_PAGE_SIZE, PAGE_SIZE, QueryParameters } from "./query.js";
import { createDisconnectSignal } from "./signals.js";
import { updateSession } from "./session-update.js";
import type { CommandList, Deleted, MessageList, ModelList, Session, SessionList } from "./shapes.js";
import { findActiveRun, ACTIVE_STATES } from "./active-run.js";
import { toWireMessage, toWireModel, toWireSession } from "./wire-stored.js";

const MAX_MESSAGES = 1000;

/** `GET /api/models`. */
export async function listModels(ctx: Context, agent: Agent): Promise<void> {
  const entries = await agent.models.list(createDisconnectSignal(ctx));
  send<typeof ModelList>(ctx, { models: entries.map(toWireModel) });
}

/** `GET /api/commands`. */
export async function listCommands(ctx: Context, { agent, options }: ApiDependencies): Promise<void> {
  const query = new QueryParameters(ctx);
  // Clients in typed languages send unset parameters as "".
  const sessionId = query.text("session_id") || undefined;
  const requestedDir = query.text("project_dir") || undefined;
  const rules = { projectDir: agent.projectDir, roots: options.projectRoots, deniedPaths: options.deniedPaths };
  const projectDir = requestedDir === undefined ? undefined : await resolveProjectFolder(requestedDir, rules);
  send<typeof CommandList>(ctx, { commands: await agent.commands({ sessionId, projectDir }) });
}

/** `GET /api/sessions`. */
export async function listSessions(ctx: Context, agent: Agent): Promise<void> {
  const query = new QueryParameters(ctx);
  const page = query.integer("page", 1) ?? 1;
  const size = Math.min(query.integer("size", 1) ?? PAGE_SIZE, MAX_PAGE_SIZE);
  const projectDir = query.text("project_dir") ?? "";
  const { sessions, total } = await agent.sessions.list({
    limit: size,
    offset: Math.min((page - 1) * size, Number.MAX_SAFE_INTEGER),
    // Project folders are stored without a trailing slash.
    projectDir: (isAbsolute(projectDir) ? resolve(projectDir) : projectDir) || undefined,
    search: query.text("search") || undefined,
    spawnedBy: query.text("spawned_by") || undefined,
  });
  const activeRunsBySessionId = new Map(
    (await agent.runs.list({ states: ACTIVE_STATES, limit: 1000 })).map((run) => [run.sessionId, run]),
  );
  const wireSessions = sessions.map((session) => toWireSession(session, activeRunsBySessionId.get(session.id)));
  send<typeof SessionList>(ctx, { sessions: wireSessions, total, page, size });
}

/** `GET /api/sessions/{id}`. */
export async function showSession(ctx: Context, id: string, agent: Agent): Promise<void> {
  const session = await agent.sessions.get(id);
  if (!session) throw new SessionNotFoundError(id);
  // Names the chain's first session, which lists show: the usage of a follow-up covers only the follow-up.
  ctx.set(SESSION_HEADER, session.chain.root);
  send<typeof Session>(ctx, toWireSession(session, await findActiveRun(agent, id)));
}

/** `PATCH /api/sessions/{id}`. */
export async function changeSession(
  ctx: Context,
  id: string,
  dependencies: ApiDependencies,
  bodies: BodyReader,
): Promise<void> {
  const { agent } = dependencies;
  const session = await updateSession(ctx, id, await bodies.json(ctx), dependencies);
  ctx.set(SESSION_HEADER, session.id);
  send<typeof Session>(ctx, toWireSession(session, await findActiveRun(agent, session.id)));
}

/** `DELETE /api/sessions/{id}`. */
export async function deleteSession(ctx: Context, id: string, agent: Agent): Promise<void> {
  await agent.sessions.delete(id);
  send<typeof Deleted>(ctx, { status: "deleted" });
}

/** `GET /api/sessions/{id}/messages`. */
export async function listMessages(ctx: Context, id: string, agent: Agent): Promise<void> {
  const query = new QueryParameters(ctx);
  const view = query.oneOf("view", ["all", "model"]) ?? "all";
  const limit = query.integer("limit", 1);
  const messages = await agent.sessions.messages(id, {
    view,
    after: query.integer("after", 0),
    before: query.integer("before", 1),
    limit: limit && Math.min(limit, MAX_MESSAGES),
  });
  send<typeof MessageList>(ctx, { messages: messages.map(toWireMessage) });
}
