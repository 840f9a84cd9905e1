import type { UndoResult as Result } from "gantry";
import type { Context } from "koa";
import { sendJson, type ApiDependencies } from "./api.js";
import { type BodyReader, createFieldError, Fields } from "./body.js";
import { HttpError } from "./errors.js";
import { SESSION_HEADER } from "./headers.js";
import { requirePerson } from "./person.js";
import { ForkRequest, RedoRequest, RestoreRequest, RewindRequest, UndoRequest } from "./rewind-shapes.js";
import type { Restored, Session, SnapshotList, UndoResult } from "./shapes.js";
import { toWireSession } from "./wire-stored.js";

/** A request to one session that changes what it did before. */
interface RewindContext {
  ctx: Context;
  /** The session's id. */
  id: string;
  dependencies: ApiDependencies;
  bodyReader: BodyReader;
}

/** Throws `HttpError` if `session.rewind` is false, or if `personContext` is set and no person sent its request. */
export function requireRewind(dependencies: ApiDependencies, personContext?: Context): void {
  if (!dependencies.agent.canRewind) throw new HttpError(404, "not found", {}, "rewind_disabled");
  if (personContext) requirePerson(personContext, dependencies);
}

/** `POST /api/sessions/{id}/fork`. */
export async function forkSession({ ctx, id, dependencies, bodyReader }: RewindContext): Promise<void> {
  requireRewind(dependencies);
  const { sessions } = dependencies.agent;
  const requestedId = new Fields(ForkRequest, await bodyReader.readJson(ctx)).getText("message_id");
  const [newestMessage] =
    requestedId === undefined ? await sessions.messages(id, { before: Number.MAX_SAFE_INTEGER, limit: 1 }) : [];
  const session = await sessions.fork(id, requestedId ?? newestMessage?.id ?? "");
  ctx.set(SESSION_HEADER, session.id);
  sendJson<typeof Session>(ctx, toWireSession(session));
}

/** `POST /api/sessions/{id}/rewind`. */
export async function rewindSession(context: RewindContext): Promise<void> {
  const { ctx, id, dependencies } = context;
  const fields = new Fields(RewindRequest, await readPersonBody(context));
  const [to, before] = [fields.getText("message_id"), fields.getText("before_message_id")];
  if ((to === undefined) === (before === undefined))
    throw createFieldError(to === undefined ? "message_id" : "before_message_id");
  const messagesOnly = fields.get("files") !== true;
  const options = { to, before, messagesOnly, dryRun: fields.get("dry_run"), force: fields.get("force") };
  await sendUndoResult(ctx, dependencies.agent.sessions.undo(id, options));
}

/** `POST /api/sessions/{id}/undo`. */
export async function undoRun(context: RewindContext): Promise<void> {
  const { ctx, id, dependencies } = context;
  const fields = new Fields(UndoRequest, await readPersonBody(context));
  const [filesOnly, messagesOnly] = [fields.get("files_only"), fields.get("messages_only")];
  if (filesOnly === true && messagesOnly === true) throw createFieldError("messages_only");
  const options = { filesOnly, messagesOnly, dryRun: fields.get("dry_run"), force: fields.get("force") };
  await sendUndoResult(ctx, dependencies.agent.sessions.undo(id, options));
}

/** `POST /api/sessions/{id}/redo`. */
export async function redoRun(context: RewindContext): Promise<void> {
  const { ctx, id, dependencies } = context;
  const fields = new Fields(RedoRequest, await readPersonBody(context));
  const options = { dryRun: fields.get("dry_run"), force: fields.get("force") };
  await sendUndoResult(ctx, dependencies.agent.sessions.redo(id, options));
}

/** `POST /api/sessions/{id}/restore`. */
export async function restoreSnapshot(context: RewindContext): Promise<void> {
  const snapshotId = new Fields(RestoreRequest, await readPersonBody(context)).getText("snapshot_id");
  if (snapshotId === undefined) throw createFieldError("snapshot_id");
  const newSnapshot = await context.dependencies.agent.sessions.restore(context.id, snapshotId);
  sendJson<typeof Restored>(context.ctx, { snapshot_id: newSnapshot?.id ?? "" });
}

/** `GET /api/sessions/{id}/snapshots`. */
export async function listSnapshots(ctx: Context, id: string, dependencies: ApiDependencies): Promise<void> {
  requireRewind(dependencies);
  const snapshots = await dependencies.agent.sessions.snapshots(id);
  sendJson<typeof SnapshotList>(ctx, {
    snapshots: snapshots.map(({ createdAt, ...snapshot }) => ({ ...snapshot, created_at: createdAt })),
  });
}

/** Reads the body of a request that only a person may send. Rejects with `HttpError`. */
export async function readPersonBody({ ctx, dependencies, bodyReader }: RewindContext) {
  requireRewind(dependencies, ctx);
  return bodyReader.readJson(ctx);
}

/** Answers with the result of an undo. Rejects like the undo. */
async function sendUndoResult(ctx: Context, undo: Promise<Result>): Promise<void> {
  const { files, snapshot, to } = await undo;
  sendJson<typeof UndoResult>(ctx, { files, snapshot_id: snapshot?.id ?? "", last_message_id: to });
}
