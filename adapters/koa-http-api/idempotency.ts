import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { hasCode, type Agent, type Run, type RunRecord, type WatchEvent } from "gantry";
import { canRestart, isRecord } from "gantry/plugin";
import type { Context } from "koa";
import { send, type ApiParts } from "./api.js";
import { HttpError, INTERNAL } from "./errors.js";
import type { RunResult } from "./shapes.js";
import { firstOf } from "./signals.js";
import type { SseStream } from "./sse.js";
import { wireDone } from "./wire.js";
import { wireFinished, wireOfWatched } from "./wire-live.js";

const KEY_HEADER = "Idempotency-Key";
/** Valid keys: visible ASCII, at most as long as an id. */
const KEY = /^[\x21-\x7e]{1,256}$/;

/** While another process may be restarting the run: number of retries, and the delay between them in ms. */
const BEGIN_TRIES = 20;
const BEGIN_MS = 100;

/** The idempotency key of a request; undefined without one. Throws `HttpError` if it is invalid. */
export function keyOf(ctx: Context): string | undefined {
  if (ctx.headers[KEY_HEADER.toLowerCase()] === undefined) return undefined;
  const key = ctx.get(KEY_HEADER);
  if (!KEY.test(key)) throw new HttpError(400, `invalid header: ${KEY_HEADER}`, {}, "invalid_header");
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
  return JSON.stringify(value, (_, one: unknown) =>
    isRecord(one) ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1))) : one,
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
  for (let left = BEGIN_TRIES; ; left -= 1) {
    const [there] = await agent.runs.list({ idempotencyKey: key, limit: 1 });
    if (there && there.fingerprint !== fingerprint)
      throw new HttpError(422, "this key was used for another request", {}, "key_reused");
    // An interrupted run is restarted in its session.
    if (there && !canRestart(there)) return there;
    try {
      return await begin(there?.sessionId, { idempotencyKey: key, fingerprint });
    } catch (error) {
      // Another process was faster. If it restarts a run, it may hold only the session so far.
      const isBeginning = there !== undefined && hasCode(error, "session_busy");
      if (left === 0 || !(isBeginning || hasCode(error, "run_key_taken"))) throw error;
      if (isBeginning) await sleep(BEGIN_MS);
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
  told: (error: unknown) => HttpError,
): Promise<boolean> {
  const { signal, untie } = firstOf(shutdown, gone);
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
    const { message, code } = told(error);
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
async function joinStream(agent: Agent, asked: RunRecord, stream: SseStream, signal: AbortSignal): Promise<void> {
  const run = await agent.runs.begun(asked.id, signal);
  let after = "";
  const tell = async (follow: boolean, end: number): Promise<void> => {
    let until = end;
    const from = after === "" ? { afterSeq: run.after } : { after };
    for await (const event of agent.sessions.watch(run.sessionId, { ...from, follow, signal })) {
      if (event.type === "state") {
        const { run: now } = event.state;
        if (follow && (now?.id !== run.id || now.endedAt !== "" || now.state === "interrupted")) return;
        continue;
      }
      // The next run may start at any moment, even after `endOf` was called: this message is then its prompt.
      if (event.type === "message" && event.message.role === "user" && event.message.seq > run.after + 1)
        until = await endOf(agent, run);
      if (event.type === "deleted" || !stream.open || seqOf(event) > until) return;
      if ("cursor" in event) after = event.cursor;
      for (const payload of wireOfWatched(event, run, agent.name)) await stream.send("agent", payload);
    }
  };
  // A run that ended while queued has no messages.
  if (run.queueLease === null) {
    await tell(true, Infinity);
    // Read once more: the final write may have added messages.
    await tell(false, await endOf(agent, run));
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
async function endOf(agent: Agent, run: RunRecord): Promise<number> {
  let next: RunRecord | undefined;
  for (let page: RunRecord[] = [], before: RunRecord | undefined; ; before = page.at(-1)) {
    page = await agent.runs.list({ sessionId: run.sessionId, limit: 100, ...(before && { before }) });
    for (const one of page) {
      if (one.id === run.id) return next?.after ?? Infinity;
      if (one.queueLease === null) next = one;
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
