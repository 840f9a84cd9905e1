import { hasCode, type Agent, type Run, type RunRecord } from "gantry";
import type { Context } from "koa";
import { HttpError, runRecordFailure } from "./errors.js";
import type { SseStream } from "./sse.js";
import { wireDone, wireFinished, wireOfWatched } from "./wire.js";

const KEY_HEADER = "Idempotency-Key";
/** What may be a key: visible ASCII, as long as an id. */
const KEY = /^[\x21-\x7e]{1,256}$/;

/** The key under which something is asked; undefined without one. Throws `HttpError`. */
export function keyOf(ctx: Context): string | undefined {
  if (ctx.headers[KEY_HEADER.toLowerCase()] === undefined) return undefined;
  const key = ctx.get(KEY_HEADER);
  if (!KEY.test(key)) throw new HttpError(400, `invalid header: ${KEY_HEADER}`, {}, "invalid_header");
  return key;
}

/**
 * A run that is asked for under a key: `begin` makes it, unless there is one, whichever process it runs in, or ran.
 * Throws `HttpError` for another question under the same key.
 */
export async function once(
  agent: Agent,
  key: string,
  fingerprint: string,
  begin: (sessionId: string | undefined) => Promise<Run>,
): Promise<Run | RunRecord> {
  for (let last = false; ; last = true) {
    const [there] = await agent.runs.list({ key, limit: 1 });
    if (there && there.fingerprint !== fingerprint)
      throw new HttpError(422, "this key was used for another request", {}, "key_reused");
    // What was interrupted is begun again, in its session.
    if (there && there.state !== "interrupted") return there;
    try {
      return await begin(there?.sessionId);
    } catch (error) {
      // Somebody was faster.
      if (last || !hasCode(error, "run_key_taken")) throw error;
    }
  }
}

/** What a run of before answered, or will. Rejects with `HttpError`. */
export async function answerOf(agent: Agent, run: RunRecord, signal: AbortSignal) {
  const ended = await agent.runs.ended(run.id, signal);
  if (ended.state !== "finished" || !ended.answer) throw runRecordFailure(ended);
  return wireFinished(ended, ended.answer);
}

/** The stream of a run that was begun before, from its first word on. */
export async function joinStream(agent: Agent, run: RunRecord, stream: SseStream, signal: AbortSignal): Promise<void> {
  let after = "";
  const tell = async (follow: boolean): Promise<void> => {
    const from = after === "" ? { behind: run.after } : { after };
    for await (const event of agent.sessions.watch(run.sessionId, { ...from, follow, signal })) {
      if (event.type === "state") {
        const { run: now } = event.state;
        if (follow && (now?.id !== run.id || now.endedAt !== "" || now.state === "interrupted")) return;
        continue;
      }
      if (event.type === "deleted" || !stream.open) return;
      if ("cursor" in event) after = event.cursor;
      for (const payload of wireOfWatched(event, run, agent.name)) await stream.send("agent", payload);
    }
  };
  await tell(true);
  // What was said with the end.
  await tell(false);
  const ended = await agent.runs.ended(run.id, signal);
  if (ended.state === "finished") {
    await stream.send("agent", wireDone(ended));
    stream.end("done", wireDone(ended));
  } else {
    const { message, code } = runRecordFailure(ended);
    stream.end("error", { error: message, code });
  }
}
