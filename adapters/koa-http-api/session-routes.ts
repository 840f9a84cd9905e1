import { isAbsolute, resolve } from "node:path";
import { SessionNotFoundError, type Agent } from "gantry";
import type { Context } from "koa";
import { createDisconnectController, sendJson, type ApiDependencies } from "./api.js";
import type { BodyReader } from "./body.js";
import { SESSION_HEADER } from "./headers.js";
import { resolveProjectFolder } from "./projects.js";
import { ARCHIVE_FILTERS, MAX_PAGE_SIZE, PAGE_SIZE, QueryParameters } from "./query.js";
import { updateSession } from "./session-update.js";
import type { CommandList, Deleted, MessageList, ModelList, Session, SessionList } from "./shapes.js";
import { ACTIVE_STATES, findActiveRun } from "./run-routes.js";
import { toWireMessage, toWireModel, toWireSession } from "./wire-stored.js";

const MAX_MESSAGES = 1000;
/** Maximum number of active runs that the list of sessions shows. */
const MAX_ACTIVE_RUNS = 1000;

/** `GET /api/models`. */
export async function listModels(ctx: Context, agent: Agent): Promise<void> {
  const entries = await agent.models.list(createDisconnectController(ctx).signal);
  sendJson<typeof ModelList>(ctx, { models: entries.map(toWireModel) });
}

/** `GET /api/commands`. */
export async function listCommands(ctx: Context, { agent, options }: ApiDependencies): Promise<void> {
  const query = new QueryParameters(ctx);
  // Clients in typed languages send unset parameters as "".
  const sessionId = query.getText("session_id") || undefined;
  const requestedDir = query.getText("project_dir") || undefined;
  const rules = { projectDir: agent.projectDir, roots: options.projectRoots, deniedPaths: options.deniedPaths };
  const projectDir = requestedDir === undefined ? undefined : await resolveProjectFolder(requestedDir, rules);
  sendJson<typeof CommandList>(ctx, { commands: await agent.commands({ sessionId, projectDir }) });
}

/** `GET /api/sessions`. */
export async function listSessions(ctx: Context, agent: Agent): Promise<void> {
  const query = new QueryParameters(ctx);
  const page = query.getInteger("page", 1) ?? 1;
  const size = Math.min(query.getInteger("size", 1) ?? PAGE_SIZE, MAX_PAGE_SIZE);
  const projectDir = query.getText("project_dir") ?? "";
  const { sessions, total } = await agent.sessions.list({
    limit: size,
    offset: Math.min((page - 1) * size, Number.MAX_SAFE_INTEGER),
    // Project folders are stored without a trailing slash.
    projectDir: (isAbsolute(projectDir) ? resolve(projectDir) : projectDir) || undefined,
    search: query.getText("search") || undefined,
    spawnedBy: query.getText("spawned_by") || undefined,
    archived: query.getOneOf("archived", ARCHIVE_FILTERS) ?? "exclude",
  });
  const activeRunsBySessionId = new Map(
    (await agent.runs.list({ states: ACTIVE_STATES, limit: MAX_ACTIVE_RUNS })).map((run) => [run.sessionId, run]),
  );
  const wireSessions = sessions.map((session) => toWireSession(session, activeRunsBySessionId.get(session.id)));
  sendJson<typeof SessionList>(ctx, { sessions: wireSessions, total, page, size });
}

/** `GET /api/sessions/{id}`. */
export async function showSession(ctx: Context, id: string, agent: Agent): Promise<void> {
  const session = await agent.sessions.get(id);
  if (!session) throw new SessionNotFoundError(id);
  // The header has the id of the chain's first session, which lists show. The body may describe a follow-up.
  ctx.set(SESSION_HEADER, session.chain.root);
  sendJson<typeof Session>(ctx, toWireSession(session, await findActiveRun(agent, id)));
}

/** `PATCH /api/sessions/{id}`. */
export async function changeSession(
  ctx: Context,
  id: string,
  dependencies: ApiDependencies,
  bodyReader: BodyReader,
): Promise<void> {
  const { agent } = dependencies;
  const session = await updateSession(ctx, id, await bodyReader.readJson(ctx), dependencies);
  ctx.set(SESSION_HEADER, session.id);
  sendJson<typeof Session>(ctx, toWireSession(session, await findActiveRun(agent, session.id)));
}

/** `DELETE /api/sessions/{id}`. */
export async function deleteSession(ctx: Context, id: string, agent: Agent): Promise<void> {
  await agent.sessions.delete(id);
  sendJson<typeof Deleted>(ctx, { status: "deleted" });
}

/** `GET /api/sessions/{id}/messages`. */
export async function listMessages(ctx: Context, id: string, agent: Agent): Promise<void> {
  const query = new QueryParameters(ctx);
  const view = query.getOneOf("view", ["all", "model"]) ?? "all";
  const limit = query.getInteger("limit", 1);
  const messages = await agent.sessions.messages(id, {
    view,
    after: query.getInteger("after", 0),
    before: query.getInteger("before", 1),
    limit: limit && Math.min(limit, MAX_MESSAGES),
  });
  sendJson<typeof MessageList>(ctx, { messages: messages.map(toWireMessage) });
}
