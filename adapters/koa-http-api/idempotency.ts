import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { hasCode, type Agent, type Run, type RunRecord, type WatchEvent } from "gantry";
import { canRestart, isRecord } from "gantry/plugin";
import type { Context } from "koa";
import { abortWith, sendJson, type ApiDependencies } from "./api.js";
import { HttpError, INTERNAL_ERROR_MESSAGE } from "./errors.js";
import type { RunResult } from "./shapes.js";
import type { SseStream } from "./sse.js";
import { toWireDone } from "./wire.js";
import { toWireRecordResult, toAgentEvents } from "./wire-live.js";

const KEY_HEADER = "Idempotency-Key";
/** Valid keys: visible ASCII, at most as long as an id. */
const KEY_PATTERN = /^[\x21-\x7e]{1,256}$/;

/** While another process may be restarting the run: number of retries, and the delay between them in ms. */
const MAX_RESTART_POLLS = 20;
const RESTART_POLL_INTERVAL_MS = 100;
const RUN_PAGE_SIZE = 100;

/** The idempotency key of a request; undefined without the header. Throws `HttpError` if the key is invalid. */
export function readIdempotencyKey(ctx: Context): string | undefined {
  if (ctx.headers[KEY_HEADER.toLowerCase()] === undefined) return undefined;
  const key = ctx.get(KEY_HEADER);
  if (!KEY_PATTERN.test(key)) throw new HttpError(400, `invalid header: ${KEY_HEADER}`, {}, "invalid_header");
  return key;
}

/** Identity of a run that was requested with a key. */
export interface IdempotentRequest {
  readonly idempotencyKey: string;
  /** Hash of the request body, independent of the order of its fields. */
  readonly fingerprint: string;
}

/** JSON with sorted object keys. */
function toCanonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, fieldValue: unknown) =>
    isRecord(fieldValue)
      ? Object.fromEntries(Object.entries(fieldValue).sort(([a], [b]) => (a < b ? -1 : 1)))
      : fieldValue,
  );
}

/**
 * Returns the run of this key, also if another process runs or ran it. Calls `startRun` if the key has no run, or if
 * its run was interrupted and can restart. Rejects with `HttpError` if the key was used with another body.
 *
 * `startRun` gets the session of the interrupted run; undefined for a new run.
 */
export async function runOnce(
  agent: Agent,
  key: string,
  body: Readonly<Record<string, unknown>>,
  startRun: (sessionId: string | undefined, idempotentRequest: IdempotentRequest) => Promise<Run | RunRecord>,
): Promise<Run | RunRecord> {
  const fingerprint = createHash("sha256").update(toCanonicalJson(body)).digest("base64url");
  for (let remainingPolls = MAX_RESTART_POLLS; ; remainingPolls -= 1) {
    const [existingRun] = await agent.runs.list({ idempotencyKey: key, limit: 1 });
    if (existingRun && existingRun.fingerprint !== fingerprint)
      throw new HttpError(422, "this key was used for another request", {}, "key_reused");
    // An interrupted run is restarted in its session.
    if (existingRun && !canRestart(existingRun)) return existingRun;
    try {
      return await startRun(existingRun?.sessionId, { idempotencyKey: key, fingerprint });
    } catch (error) {
      // Another process was faster. A process that restarts a run locks the session before it stores the run.
      const isRestarting = existingRun !== undefined && hasCode(error, "session_busy");
      if (remainingPolls === 0 || !(isRestarting || hasCode(error, "run_key_taken"))) throw error;
      if (isRestarting) await sleep(RESTART_POLL_INTERVAL_MS);
    }
  }
}

/**
 * Answers with a run that was started earlier with the same key. Returns false, without sending an answer, if that run
 * was interrupted. `stream`: undefined for a JSON answer.
 */
export async function joinRun(
  ctx: Context,
  { agent, shutdownSignal }: Pick<ApiDependencies, "agent" | "shutdownSignal">,
  run: RunRecord,
  stream: SseStream | undefined,
  disconnectController: AbortController,
  toHttpError: (error: unknown) => HttpError,
): Promise<boolean> {
  const removeListener = abortWith(disconnectController, shutdownSignal);
  const { signal } = disconnectController;
  try {
    if (stream) {
      await joinStream(agent, run, stream, signal);
      return true;
    }
    const result = await waitForResult(agent, run, signal);
    if (result) sendJson<typeof RunResult>(ctx, result);
    return result !== undefined;
  } catch (error) {
    if (!stream) throw error;
    const { message, code } = toHttpError(error);
    stream.end("error", { error: message, code });
    return true;
  } finally {
    removeListener();
  }
}

/**
 * Waits for the end of an earlier run and returns its result; undefined if the run was interrupted. Rejects with
 * `HttpError` if the run failed.
 */
async function waitForResult(agent: Agent, run: RunRecord, signal: AbortSignal) {
  const endedRun = await agent.runs.ended(run.id, signal);
  if (canRestart(endedRun)) return undefined;
  if (endedRun.state !== "finished" || !endedRun.answer) throw toRunError(endedRun);
  return toWireRecordResult(endedRun, endedRun.answer);
}

/** Streams an earlier run from its first message. */
async function joinStream(
  agent: Agent,
  requestedRun: RunRecord,
  stream: SseStream,
  signal: AbortSignal,
): Promise<void> {
  const run = await agent.runs.started(requestedRun.id, signal);
  /** Cursor of the last event that was read; `""` before the first event. */
  let cursor = "";
  const sendEvents = async (follow: boolean, endSeq: number): Promise<void> => {
    let lastSeq = endSeq;
    const startPosition = cursor === "" ? { afterSeq: run.after } : { after: cursor };
    for await (const event of agent.sessions.watch(run.sessionId, { ...startPosition, follow, signal })) {
      if (event.type === "state") {
        const { run: currentRun } = event.state;
        if (follow && (currentRun?.id !== run.id || currentRun.endedAt !== "" || currentRun.state === "interrupted"))
          return;
        continue;
      }
      // The next run may start at any moment, even after the last `seq` was read: this message may be its prompt.
      if (event.type === "message" && event.message.role === "user" && event.message.seq > run.after + 1)
        lastSeq = await readLastSeq(agent, run);
      if (event.type === "deleted" || !stream.isOpen || getSeq(event) > lastSeq) return;
      if ("cursor" in event) cursor = event.cursor;
      for (const payload of toAgentEvents(event, run, agent.name)) await stream.send("agent", payload);
    }
  };
  // A run without a queue lease has started. A run that ended while queued has no messages.
  if (run.queueLease === null) {
    await sendEvents(true, Infinity);
    // Read again: the final write may have added messages.
    await sendEvents(false, await readLastSeq(agent, run));
  }
  const endedRun = await agent.runs.ended(run.id, signal);
  if (endedRun.state === "finished") {
    await stream.send("agent", toWireDone(endedRun.usage, endedRun.answer, endedRun.endedBy));
    stream.end("done", toWireDone(endedRun.usage, endedRun.answer, endedRun.endedBy));
  } else {
    const { message, code } = toRunError(endedRun);
    stream.end("error", { error: message, code });
  }
}

/** The `seq` of the event's message; 0 for an event without a message. */
function getSeq(event: WatchEvent): number {
  return "message" in event ? event.message.seq : event.type === "delta" ? event.seq : 0;
}

/** Greatest `seq` of the run's messages. The next run starts after this `seq`; Infinity if there is no next run. */
async function readLastSeq(agent: Agent, run: RunRecord): Promise<number> {
  let nextRun: RunRecord | undefined;
  for (let page: RunRecord[] = [], before: RunRecord | undefined; ; before = page.at(-1)) {
    page = await agent.runs.list({ sessionId: run.sessionId, limit: RUN_PAGE_SIZE, ...(before && { before }) });
    for (const listedRun of page) {
      if (listedRun.id === run.id) return nextRun?.after ?? Infinity;
      if (listedRun.queueLease === null) nextRun = listedRun;
    }
    if (page.length === 0) return Infinity;
  }
}

/** Converts the stored end of a run into an error response. */
function toRunError(run: RunRecord): HttpError {
  const { state, error } = run;
  // The run's process has ended: the log of this process has no details.
  if (canRestart(run)) return new HttpError(500, "run interrupted", {}, "run_interrupted");
  if (state === "cancelled") return new HttpError(500, "run cancelled", {}, "run_cancelled");
  return new HttpError(500, error?.message ?? INTERNAL_ERROR_MESSAGE, {}, error?.code ?? state);
}
