import { SessionNotFoundError } from "gantry";
import { findProjectFiles } from "gantry/plugin";
import type { Context } from "koa";
import { createDisconnectController, sendJson, type ApiDependencies } from "./api.js";
import { HttpError } from "./errors.js";
import { resolveProjectFolder } from "./projects.js";
import { QueryParameters } from "./query.js";
import type { FileList } from "./shapes.js";

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 100;
const MAX_QUERY_CHARACTERS = 200;

/** `GET /api/files`. */
export async function listFiles(ctx: Context, { agent, options }: ApiDependencies): Promise<void> {
  const parameters = new QueryParameters(ctx);
  const { deniedPaths, projectRoots: roots } = options;
  const text = parameters.getText("query") ?? "";
  if (text.length > MAX_QUERY_CHARACTERS)
    throw new HttpError(400, "invalid query parameter: query", {}, "invalid_query");
  const sessionId = parameters.getText("session_id") || undefined;
  const session = sessionId === undefined ? undefined : await agent.sessions.get(sessionId);
  if (sessionId !== undefined && !session) throw new SessionNotFoundError(sessionId);
  // A worktree lies outside of the roots. Its project folder counts.
  const worktree = session && (await agent.sessions.worktree(session.id));
  const requestedDir =
    worktree?.projectDir ?? session?.projectDir ?? (parameters.getText("project_dir") || agent.projectDir);
  const folder = await resolveProjectFolder(requestedDir, { projectDir: agent.projectDir, roots, deniedPaths });
  const { paths, isIncomplete } = await findProjectFiles({
    folder: worktree && session ? session.projectDir : folder,
    query: text,
    limit: Math.min(parameters.getInteger("limit", 1) ?? DEFAULT_LIMIT, MAX_LIMIT),
    deniedPaths,
    signal: createDisconnectController(ctx).signal,
  });
  sendJson<typeof FileList>(ctx, { files: paths.map((path) => ({ path })), incomplete: isIncomplete });
}
