import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { hasCode, type Agent, type Run, type RunRecord, type WatchEvent } from "gantry";
import { canRestart, isRecord } from "gantry/plugin";
import type { Context } from "koa";
import { send, type ApiParts } from "./api.js";
import { HttpError, INTERNAL } from "./errors.js";
import type { RunResult } from "./shapes.js";
import { anySignal } from "./signals.js";
import type { SseStream } from "./sse.js";
import { wireDone } from "./wire.js";
import { wireFinished, toAgentEvents } from "./wire-live.js";

const KEY_HEADER = "Idempotency-Key";
/** Valid keys: visible ASCII, at most as long as an id. */
const KEY_PATTERN = /^[\x21-\x7e]{1,256}$/;

/** While another process may be restarting the run: number of retries, and the delay between them in ms. */
const MAX_RESTART_POLLS = 20;
const RESTART_POLL_MS = 100;

/** The idempotency key of a request; undefined without one. Throws `HttpError` if it is invalid. */
export function keyOf(ctx: Context): string | undefined {
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
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, fieldValue: unknown) =>
    isRecord(fieldValue)
      ? Object.fromEntries(Object.entries(fieldValue).sort(([a], [b]) => (a < b ? -1 : 1)))
      : fieldValue,
  );
}

/**
 * Returns the run of this key, whichever process runs or ran it. Calls `begin` if there is none, or if it was
 * interrupted and can restart. Throws `HttpError` if the key was used with another body.
 */
export async function runOnce(
  agent: Agent,
  key: string,
  body: Readonly<Record<string, unknown>>,
  begin: (sessionId: string | undefined, named: IdempotentRequest) => Promise<Run | RunRecord>,
): Promise<Run | RunRecord> {
  const fingerprint = createHash("sha256").update(canonical(body)).digest("base64url");
  for (let remainingTries = MAX_RESTART_POLLS; ; remainingTries -= 1) {
    const [existingRun] = await agent.runs.list({ idempotencyKey: key, limit: 1 });
    if (existingRun && existingRun.fingerprint !== fingerprint)
      throw new HttpError(422, "this key was used for another request", {}, "key_reused");
    // An interrupted run is restarted in its session.
    if (existingRun && !canRestart(existingRun)) return existingRun;
    try {
      return await begin(existingRun?.sessionId, { idempotencyKey: key, fingerprint });
    } catch (error) {
      // Another process was faster. If it restarts a run, it may hold only the session so far.
      const isBeginning = existingRun !== undefined && hasCode(error, "session_busy");
      if (remainingTries === 0 || !(isBeginning || hasCode(error, "run_key_taken"))) throw error;
      if (isBeginning) await sleep(RESTART_POLL_MS);
    }
  }
}

/**
 * Answers with a run that was started earlier with the same key. Returns false if that run was interrupted and nothing
 * was sent.
 */
export async function joinRun(
  ctx: Context,
  { agent, shutdown }: Pick<ApiParts, "agent" | "shutdown">,
  run: RunRecord,
  stream: SseStream | undefined,
  gone: AbortSignal,
  toHttpError: (error: unknown) => HttpError,
): Promise<boolean> {
  const { signal, untie } = anySignal(shutdown, gone);
  try {
    if (stream) {
      await joinStream(agent, run, stream, signal);
      return true;
    }
    const answer = await answerOf(agent, run, signal);
    if (answer) send<typeof RunResult>(ctx, answer);
    return answer !== undefined;
  } catch (error) {
    if (!stream) throw error;
    const { message, code } = toHttpError(error);
    stream.end("error", { error: message, code });
    return true;
  } finally {
    untie();
  }
}

/**
 * The result of an earlier run; waits for its end. Undefined if the run was interrupted. Rejects with `HttpError` if it
 * failed.
 */
async function answerOf(agent: Agent, run: RunRecord, signal: AbortSignal) {
  const ended = await agent.runs.ended(run.id, signal);
  if (canRestart(ended)) return undefined;
  if (ended.state !== "finished" || !ended.answer) throw runRecordFailure(ended);
  return wireFinished(ended, ended.answer);
}

/** Streams an earlier run from its first message. */
async function joinStream(
  agent: Agent,
  requestedRun: RunRecord,
  stream: SseStream,
  signal: AbortSignal,
): Promise<void> {
  const run = await agent.runs.started(requestedRun.id, signal);
  let after = "";
  const sendEvents = async (follow: boolean, end: number): Promise<void> => {
    let until = end;
    const from = after === "" ? { afterSeq: run.after } : { after };
    for await (const event of agent.sessions.watch(run.sessionId, { ...from, follow, signal })) {
      if (event.type === "state") {
        const { run: now } = event.state;
        if (follow && (now?.id !== run.id || now.endedAt !== "" || now.state === "interrupted")) return;
        continue;
      }
      // The next run may start at any moment, even after the last `seq` was read: this message is then its prompt.
      if (event.type === "message" && event.message.role === "user" && event.message.seq > run.after + 1)
        until = await lastSeqOf(agent, run);
      if (event.type === "deleted" || !stream.open || seqOf(event) > until) return;
      if ("cursor" in event) after = event.cursor;
      for (const payload of toAgentEvents(event, run, agent.name)) await stream.send("agent", payload);
    }
  };
  // A run that ended while queued has no messages.
  if (run.queueLease === null) {
    await sendEvents(true, Infinity);
    // Read once more: the final write may have added messages.
    await sendEvents(false, await lastSeqOf(agent, run));
  }
  const ended = await agent.runs.ended(run.id, signal);
  if (ended.state === "finished") {
    await stream.send("agent", wireDone(ended.usage, ended.answer, ended.endedBy));
    stream.end("done", wireDone(ended.usage, ended.answer, ended.endedBy));
  } else {
    const { message, code } = runRecordFailure(ended);
    stream.end("error", { error: message, code });
  }
}

function seqOf(event: WatchEvent): number {
  return "message" in event ? event.message.seq : event.type === "delta" ? event.seq : 0;
}

/** Greatest `seq` of the run's messages, which is where the next run started; Infinity if there is no next run. */
async function lastSeqOf(agent: Agent, run: RunRecord): Promise<number> {
  let next: RunRecord | undefined;
  for (let page: RunRecord[] = [], before: RunRecord | undefined; ; before = page.at(-1)) {
    page = await agent.runs.list({ sessionId: run.sessionId, limit: 100, ...(before && { before }) });
    for (const listedRun of page) {
      if (listedRun.id === run.id) return next?.after ?? Infinity;
      if (listedRun.queueLease === null) next = listedRun;
    }
    if (page.length === 0) return Infinity;
  }
}

/** Converts the stored end of a run into an error response. */
function runRecordFailure(run: RunRecord): HttpError {
  const { state, error } = run;
  // The run's process is gone: this process has logged no details.
  if (canRestart(run)) return new HttpError(500, "run interrupted", {}, "run_interrupted");
  if (state === "cancelled") return new HttpError(500, "run cancelled", {}, "run_cancelled");
  return new HttpError(500, error?.message ?? INTERNAL, {}, error?.code ?? state);
}
