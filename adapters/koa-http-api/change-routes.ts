import type { FileDifference } from "gantry/plugin";
import type { Context } from "koa";
import { sendJson, type ApiDependencies } from "./api.js";
import { type BodyReader, createFieldError, Fields } from "./body.js";
import { MAX_PAGE_SIZE, PAGE_SIZE, QueryParameters } from "./query.js";
import { readPersonBody } from "./rewind-routes.js";
import { UndoChangeRequest } from "./rewind-shapes.js";
import type { ChangedFileList, UndoneFile } from "./shapes.js";

/** `GET /api/sessions/{id}/changes`. */
export async function listChanges(ctx: Context, id: string, { agent }: ApiDependencies): Promise<void> {
  const query = new QueryParameters(ctx);
  const page = query.getInteger("page", 1) ?? 1;
  const size = Math.min(query.getInteger("size", 1) ?? PAGE_SIZE, MAX_PAGE_SIZE);
  const { files, total } = await agent.sessions.changes(id, {
    runId: query.getText("run_id") || undefined,
    path: query.getText("path") || undefined,
    offset: Math.min((page - 1) * size, Number.MAX_SAFE_INTEGER),
    limit: size,
  });
  const canUndo = agent.canRewind;
  sendJson<typeof ChangedFileList>(ctx, { files: files.map(toWireFile), total, page, size, can_undo: canUndo });
}

/** `POST /api/sessions/{id}/changes/undo`. */
export async function undoChange(
  ctx: Context,
  id: string,
  dependencies: ApiDependencies,
  bodyReader: BodyReader,
): Promise<void> {
  const fields = new Fields(UndoChangeRequest, await readPersonBody({ ctx, id, dependencies, bodyReader }));
  const path = fields.getText("path");
  if (path === undefined || path.includes("\0")) throw createFieldError("path");
  // A missing file has the version "".
  const version = fields.get("version");
  const hunk = fields.get("hunk");
  if (hunk && !version) throw createFieldError("version");
  const file = await dependencies.agent.sessions.undoChange(id, {
    ...{ path, version, runId: fields.getText("run_id") },
    ...(hunk && {
      hunk: {
        oldStart: hunk.old_start,
        oldLines: hunk.old_lines,
        newStart: hunk.new_start,
        newLines: hunk.new_lines,
      },
    }),
    ...{ dryRun: fields.get("dry_run"), force: fields.get("force") },
  });
  sendJson<typeof UndoneFile>(ctx, file);
}

function toWireFile({ runIds, oldText, newText, ...file }: FileDifference) {
  return { ...file, run_ids: runIds, old_text: oldText, new_text: newText };
}
