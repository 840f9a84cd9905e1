import { isAbsolute, resolve } from "node:path";
import { hasCode, type Agent } from "gantry";
import type { MessageMatch } from "gantry/plugin";
import type { Context } from "koa";
import { createDisconnectController, sendJson } from "./api.js";
import { ARCHIVE_FILTERS, createQueryError, MAX_PAGE_SIZE, PAGE_SIZE, QueryParameters } from "./query.js";
import type * as shapes from "./shapes.js";
import type { ResponseBody } from "./shapes.js";

const PARAMETER_BY_FIELD: Readonly<Record<string, string>> = { text: "query", before: "before" };

/** `GET /api/search`. The search stops if the client disconnects. */
export async function searchMessages(ctx: Context, agent: Agent): Promise<void> {
  const query = new QueryParameters(ctx);
  const text = query.getText("query");
  if (!text) throw createQueryError("query");
  const projectDir = query.getText("project_dir") ?? "";
  const { matches, next, isIncomplete } = await agent.sessions
    .search({
      text,
      // Project folders are stored without a trailing slash.
      projectDir: (isAbsolute(projectDir) ? resolve(projectDir) : projectDir) || undefined,
      limit: Math.min(query.getInteger("limit", 1) ?? PAGE_SIZE, MAX_PAGE_SIZE),
      before: query.getText("before") || undefined,
      archived: query.getOneOf("archived", ARCHIVE_FILTERS) ?? "exclude",
      signal: createDisconnectController(ctx).signal,
    })
    .catch((error: unknown) => {
      const parameter = hasCode(error, "invalid_input") ? PARAMETER_BY_FIELD[error.field] : undefined;
      throw parameter === undefined ? error : createQueryError(parameter);
    });
  sendJson<typeof shapes.MessageMatchList>(ctx, {
    matches: matches.map(toWireMatch),
    ...(next !== undefined && { next }),
    incomplete: isIncomplete,
  });
}

function toWireMatch(match: MessageMatch): ResponseBody<typeof shapes.MessageMatch> {
  const { sessionId, title, messageId, seq, role, createdAt, snippet, ranges } = match;
  return {
    session_id: sessionId,
    title,
    message_id: messageId,
    seq,
    role,
    created_at: createdAt,
    snippet,
    ranges: ranges.map(([start, end]) => ({ start, end })),
  };
}
