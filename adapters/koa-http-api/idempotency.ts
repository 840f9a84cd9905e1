import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { hasCode, type Agent, type Run, type RunRecord, type WatchEvent } from "gantry";
import { brokeOff, isRecord } from "gantry/plugin";
import type { Context } from "koa";
import { send, type ApiParts } from "./api.js";
import { HttpError, INTERNAL } from "./errors.js";
import type { RunResult } from "./shapes.js";
import { firstOf } from "./signals.js";
import type { SseStream } from "./sse.js";
import { wireDone } from "./wire.js";
import { wireFinished, wireOfWatched } from "./wire-live.js";

const KEY_HEADER = "Idempotency-Key";
/** What may be a key: visible ASCII, as long as an id. */
const KEY = /^[\x21-\x7e]{1,256}$/;

/** Whoever finds a run that somebody else may be beginning again looks so often for it, and waits so long between, in ms. */
const BEGIN_TRIES = 20;
const BEGIN_MS = 100;

/** The key under which something is asked; undefined without one. Throws `HttpError`. */
export function keyOf(ctx: Context): string | undefined {
  if (ctx.headers[KEY_HEADER.toLowerCase()] === undefined) return undefined;
  const key = ctx.get(KEY_HEADER);
  if (!KEY.test(key)) throw new HttpError(400, `invalid header: ${KEY_HEADER}`, {}, "invalid_header");
  return key;
}

/** What a run is found again by. */
export interface Named {
  readonly key: string;
  /** Of all that was asked, the same for the same. */
  readonly fingerprint: string;
}

/** JSON whose fields stand in one order. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) =>
    isRecord(one) ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1))) : one,
  );
}

/**
 * A run that is asked for under a key: `begin` makes it, unless there is one, whichever process it runs in, or ran.
 * Throws `HttpError` for another question under the same key.
 */
export async function once(
  agent: Agent,
  key: string,
  body: Readonly<Record<string, unknown>>,
  begin: (sessionId: string | undefined, named: Named) => Promise<Run | RunRecord>,
): Promise<Run | RunRecord> {
  const fingerprint = createHash("sha256").update(canonical(body)).digest("base64url");
  for (let left = BEGIN_TRIES; ; left -= 1) {
    const [there] = await agent.runs.list({ key, limit: 1 });
    if (there && there.fingerprint !== fingerprint)
      throw new HttpError(422, "this key was used for another request", {}, "key_reused");
    // What broke off is begun again, in its session.
    if (there && !brokeOff(there)) return there;
    try {
      return await begin(there?.sessionId, { key, fingerprint });
    } catch (error) {
      // Somebody was faster; of a run that is begun again they may have no more than the session yet.
      const isBeginning = there !== undefined && hasCode(error, "session_busy");
      if (left === 0 || !(isBeginning || hasCode(error, "run_key_taken"))) throw error;
      if (isBeginning) await sleep(BEGIN_MS);
    }
  }
}

/** A run that was begun before, under the same key. False when it broke off, and nothing was told of it. */
export async function join(
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

/** What a run of before answered, or will; undefined where it broke off. Rejects with `HttpError`. */
async function answerOf(agent: Agent, run: RunRecord, signal: AbortSignal) {
  const ended = await agent.runs.ended(run.id, signal);
  if (brokeOff(ended)) return undefined;
  if (ended.state !== "finished" || !ended.answer) throw runRecordFailure(ended);
  return wireFinished(ended, ended.answer);
}

/** The stream of a run that was begun before, from its first word on. */
async function joinStream(agent: Agent, asked: RunRecord, stream: SseStream, signal: AbortSignal): Promise<void> {
  const run = await agent.runs.begun(asked.id, signal);
  let after = "";
  const tell = async (follow: boolean, end: number): Promise<void> => {
    let until = end;
    const from = after === "" ? { behind: run.after } : { after };
    for await (const event of agent.sessions.watch(run.sessionId, { ...from, follow, signal })) {
      if (event.type === "state") {
        const { run: now } = event.state;
        if (follow && (now?.id !== run.id || now.endedAt !== "" || now.state === "interrupted")) return;
        continue;
      }
      // The next run may begin at any moment, also after its place was looked up: then this is its prompt.
      if (event.type === "message" && event.message.role === "user" && event.message.seq > run.after + 1)
        until = await endOf(agent, run);
      if (event.type === "deleted" || !stream.open || seqOf(event) > until) return;
      if ("cursor" in event) after = event.cursor;
      for (const payload of wireOfWatched(event, run, agent.name)) await stream.send("agent", payload);
    }
  };
  // One that left the line said nothing.
  if (run.line === null) {
    await tell(true, Infinity);
    // What was said with the end.
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

/** Greatest `seq` of what a run said: where the next one began. */
async function endOf(agent: Agent, run: RunRecord): Promise<number> {
  let next: RunRecord | undefined;
  for (let page: RunRecord[] = [], before: RunRecord | undefined; ; before = page.at(-1)) {
    page = await agent.runs.list({ sessionId: run.sessionId, limit: 100, ...(before && { before }) });
    for (const one of page) {
      if (one.id === run.id) return next?.after ?? Infinity;
      if (one.line === null) next = one;
    }
    if (page.length === 0) return Infinity;
  }
}

/** What a client is told of a run that ended before it was asked for, as the store knows it. */
function runRecordFailure(run: RunRecord): HttpError {
  const { state, error } = run;
  // Its process has gone: no log of this one has more of it.
  if (brokeOff(run)) return new HttpError(500, "run interrupted", {}, "run_interrupted");
  if (state === "cancelled") return new HttpError(500, "run cancelled", {}, "run_cancelled");
  return new HttpError(500, error?.message ?? INTERNAL, {}, error?.code ?? state);
}
