import { RunNotFoundError, type Agent, type RunRecord, type RunState as State } from "gantry";
import type { Context } from "koa";
import { sendJson } from "./api.js";
import { type BodyReader, Fields } from "./body.js";
import { HttpError } from "./errors.js";
import { MAX_PAGE_SIZE, PAGE_SIZE, QueryParameters, readPathId } from "./query.js";
import { BackgroundRequest, RunState, SteerRequest } from "./request-shapes.js";
import type { BackgroundAccepted, Run, RunList, SessionRun, SteerAccepted } from "./shapes.js";
import { toWireRun } from "./wire-live.js";

export const ACTIVE_STATES: readonly State[] = ["running", "waiting"];

/** The running or waiting run of a session; undefined if the session has no such run. */
export async function findActiveRun(agent: Agent, sessionId: string): Promise<RunRecord | undefined> {
  const [run] = await agent.runs.list({ sessionId, states: ACTIVE_STATES, limit: 1 });
  return run;
}

/** `GET /api/runs`. */
export async function listRuns(ctx: Context, agent: Agent): Promise<void> {
  const query = new QueryParameters(ctx);
  const state = query.getOneOf("state", RunState.options);
  const runs = await agent.runs.list({
    limit: Math.min(query.getInteger("size", 1) ?? PAGE_SIZE, MAX_PAGE_SIZE),
    sessionId: query.getText("session_id") || undefined,
    states: state && [state],
    before: await requireRunBefore(agent, query.getText("before")),
  });
  sendJson<typeof RunList>(ctx, { runs: runs.map(toWireRun) });
}

/** `GET /api/runs/{id}`. */
export async function showRun(ctx: Context, agent: Agent): Promise<void> {
  const id = readPathId(ctx, RunNotFoundError);
  const run = await agent.runs.get(id);
  if (!run) throw new RunNotFoundError(id);
  sendJson<typeof Run>(ctx, toWireRun(run));
}

/** `POST /api/runs/{id}/cancel`. */
export async function cancelRun(ctx: Context, agent: Agent): Promise<void> {
  sendJson<typeof Run>(ctx, toWireRun(await agent.runs.cancel(readPathId(ctx, RunNotFoundError))));
}

/** `POST /api/sessions/{id}/cancel`. */
export async function cancelSession(ctx: Context, id: string, agent: Agent): Promise<void> {
  const run = await findActiveRun(agent, id);
  sendJson<typeof SessionRun>(ctx, { run: run ? toWireRun(await agent.runs.cancel(run.id)) : null });
}

/** `POST /api/sessions/{id}/steer`. */
export async function steer(ctx: Context, id: string, agent: Agent, bodyReader: BodyReader): Promise<void> {
  const text = new Fields(SteerRequest, await bodyReader.readJson(ctx)).getText("message");
  if (text === undefined || text.trim() === "") throw new HttpError(400, "message is required", {}, "message_required");
  const run = await findActiveRun(agent, id);
  if (!run || !(await agent.runs.steer(run.id, text))) throw new HttpError(409, "no run to steer", {}, "no_run");
  sendJson<typeof SteerAccepted>(ctx, { run_id: run.id });
}

/** `POST /api/sessions/{id}/background`. */
export async function moveToBackground(ctx: Context, id: string, agent: Agent, bodyReader: BodyReader): Promise<void> {
  const callId = new Fields(BackgroundRequest, await bodyReader.readJson(ctx)).getText("tool_call_id");
  const run = await findActiveRun(agent, id);
  if (!run || !(await agent.runs.moveToBackground(run.id, callId)))
    throw new HttpError(409, "no run whose calls could move to the background", {}, "no_run");
  sendJson<typeof BackgroundAccepted>(ctx, { run_id: run.id });
}

/** The last run of the previous page; undefined for the first page. Rejects with `HttpError` for an unknown id. */
async function requireRunBefore(agent: Agent, id: string | undefined): Promise<RunRecord | undefined> {
  if (id === undefined) return undefined;
  const run = await agent.runs.get(id);
  if (!run) throw new HttpError(400, "invalid query parameter: before", {}, "invalid_query");
  return run;
}
