import { hasCode, SessionNotFoundError } from "gantry";
import { readFilePreview, type PathRefusal } from "gantry/plugin";
import type { Context } from "koa";
import { sendJson, type ApiDependencies } from "./api.js";
import { HttpError } from "./errors.js";
import { resolveProjectFolder } from "./projects.js";
import { QueryParameters } from "./query.js";
import type { FileContent } from "./shapes.js";

/** Status and code of the answer if a file cannot be opened. Every other refusal is 403 `file_refused`. */
const FAILURES: Readonly<Partial<Record<PathRefusal, readonly [status: number, code: string]>>> = {
  not_found: [404, "file_not_found"],
  folder: [400, "not_a_file"],
  invalid: [400, "invalid_query"],
};

/** `GET /api/files/content`. */
export async function showFileContent(ctx: Context, { agent, options }: ApiDependencies): Promise<void> {
  const query = new QueryParameters(ctx);
  const path = query.getText("path") ?? "";
  if (path === "") throw new HttpError(400, "invalid query parameter: path", {}, "invalid_query");
  // Clients in typed languages send unset parameters as "".
  const sessionId = query.getText("session_id") || undefined;
  const requestedDir = query.getText("project_dir") || undefined;
  const { deniedPaths, allowPaths, projectRoots } = options;
  const session = sessionId === undefined ? undefined : await agent.sessions.get(sessionId);
  if (sessionId !== undefined && !session) throw new SessionNotFoundError(sessionId);
  const rules = { projectDir: agent.projectDir, roots: projectRoots, deniedPaths };
  const projectDir =
    requestedDir === undefined
      ? (session?.projectDir ?? agent.projectDir)
      : await resolveProjectFolder(requestedDir, rules);
  try {
    const preview = await readFilePreview(path, projectDir, { allowPaths, deniedPaths });
    const { size, text, data, truncated, mediaType, modifiedAt } = preview;
    sendJson<typeof FileContent>(ctx, {
      ...{ path: preview.path, size, text, truncated },
      ...(data !== null && { data }),
      media_type: mediaType,
      modified_at: modifiedAt.toISOString(),
    });
  } catch (error) {
    if (!hasCode(error, "path")) throw error;
    const [status, code] = FAILURES[error.reason] ?? [403, "file_refused"];
    throw new HttpError(status, error.message, {}, code);
  }
}
