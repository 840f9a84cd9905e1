import {
  readAttachments,
  RunCancelledError,
  ShuttingDownError,
  type Run,
  type RunRecord,
  type RunResult,
} from "gantry";
import type { Context } from "koa";
import { send, type ApiParts } from "./api.js";
import type { BodyReader, RunRequest } from "./body.js";
import { HttpError, isInternal, runFailure } from "./errors.js";
import { CANCEL_MS } from "./serving.js";
import { answerOf, joinStream, keyOf, once } from "./repeats.js";
import { SseStream } from "./sse.js";
import type { Streams } from "./streams.js";
import { IGNORED_HEADER, MODEL_HEADER, RUN_HEADER, SESSION_HEADER, wireDone, wireEvent, wireResult } from "./wire.js";

/** `POST /api/run`. */
export class Runs {
  readonly #parts: ApiParts;
  readonly #bodies: BodyReader;
  readonly #streams: Streams;

  constructor(parts: ApiParts, streams: Streams, bodies: BodyReader) {
    this.#parts = parts;
    this.#bodies = bodies;
    this.#streams = streams;
  }

  async serve(ctx: Context): Promise<void> {
    const gone = new AbortController();
    const { res } = ctx;
    // The response, not the request: a request is over as soon as its body is read.
    res.once("close", () => res.writableFinished || gone.abort(new RunCancelledError()));
    const request = await this.#bodies.read(ctx);
    // Also on the answer of a run that fails: a misspelt name may be why.
    if (request.ignored.length > 0) ctx.set(IGNORED_HEADER, request.ignored.map(headerText).join(", "));
    if (request.stream) this.#streams.count(ctx);
    const key = keyOf(ctx);
    const run =
      key === undefined
        ? await this.#start(request, gone.signal)
        : await once(this.#parts.agent, key, request.fingerprint(), (sessionId) =>
            this.#start({ ...request, sessionId: request.sessionId ?? sessionId }, gone.signal, key),
          );
    const model = typeof run.model === "string" ? run.model : run.model.id;
    ctx.set(SESSION_HEADER, headerText(run.sessionId));
    ctx.set(RUN_HEADER, run.id);
    ctx.set(MODEL_HEADER, headerText(`${run.provider}/${model}`));
    if (request.background) send(ctx, { run_id: run.id, session_id: run.sessionId }, 202);
    else if (!("result" in run)) await this.#join(ctx, run, request.stream, gone.signal);
    else if (request.stream) await this.#stream(ctx, run);
    else await this.#answer(ctx, run);
  }

  /** A run that was begun before, under the same key. */
  async #join(ctx: Context, run: RunRecord, isStream: boolean, gone: AbortSignal): Promise<void> {
    const { agent, options, shutdown } = this.#parts;
    const signal = AbortSignal.any([shutdown, gone]);
    if (!isStream) return send(ctx, await answerOf(agent, run, signal));
    ctx.respond = false;
    const stream = new SseStream(ctx.res, options.heartbeatMs);
    try {
      await joinStream(agent, run, stream, signal);
    } catch (error) {
      const { message, code } = this.#told(error);
      stream.end("error", { error: message, code });
    }
  }

  async #start(request: RunRequest, gone: AbortSignal, key?: string): Promise<Run> {
    const { agent, options, shutdown, isLoopback } = this.#parts;
    // Whoever names a run comes back for its answer.
    const otherwise = request.background || key !== undefined ? "continue" : options.onDisconnect;
    const isTied = (request.onDisconnect ?? otherwise) === "cancel";
    const policy = {
      projectDir: agent.projectDir,
      anywhere: isLoopback(),
      allowPaths: options.allowPaths,
      deniedPaths: options.deniedPaths,
    };
    return agent.run({
      message: request.message,
      // Read when the run has its place, for each takes its room in memory until it ends.
      attach:
        request.files.length === 0 ? undefined : (reserve) => readAttachments(request.files, { ...policy, reserve }),
      provider: request.provider,
      model: request.model,
      sessionId: request.sessionId,
      mode: request.mode,
      askedAt: "http",
      ...(key === undefined ? {} : { key, fingerprint: request.fingerprint() }),
      signal: isTied ? AbortSignal.any([shutdown, gone]) : shutdown,
      overflow: "drop",
    });
  }

  async #answer(ctx: Context, run: Run): Promise<void> {
    try {
      send(ctx, wireResult(await ending(run.result, this.#parts.shutdown)));
    } catch (error) {
      throw this.#told(error);
    }
  }

  async #stream(ctx: Context, run: Run): Promise<void> {
    ctx.respond = false;
    const stream = new SseStream(ctx.res, this.#parts.options.heartbeatMs);
    const pumped = pump(run, stream);
    try {
      const done = wireDone(await ending(run.result, this.#parts.shutdown));
      await pumped;
      tellDropped(run, stream);
      await stream.send("agent", done);
      stream.end("done", done);
    } catch (error) {
      const { message, code } = this.#told(error);
      // At a shutdown there is no time for a reader that is behind.
      if (!this.#parts.shutdown.aborted) await pumped;
      tellDropped(run, stream);
      stream.end("error", { error: message, code });
    }
  }

  /** What the client is told; what it is not told goes to the log. */
  #told(error: unknown): HttpError {
    const refusal = runFailure(error);
    const { status, message, code, headers } = refusal;
    if (isInternal(refusal)) this.#parts.logger.error("a run failed", { error });
    return new HttpError(status, message, headers, code);
  }
}

/** Events as the reader has room for them; never fails. */
async function pump(run: Run, stream: SseStream): Promise<void> {
  try {
    for await (const event of run) {
      if (!stream.open) return;
      const payload = wireEvent(event);
      const room = payload && stream.send("agent", payload);
      if (room) await room;
    }
  } catch {
    // `run.result` says what went wrong.
  }
}

/** A stream that looks whole but is not would deceive whoever joins its text. */
function tellDropped(run: Run, stream: SseStream): void {
  if (run.dropped > 0) stream.comment(`${run.dropped} token events were dropped, this reader was too slow`);
}

/** The result, or a `ShuttingDownError` when a run that must end does not end. */
function ending(result: Promise<RunResult>, shutdown: AbortSignal): Promise<RunResult> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const hurry = () => (timer = setTimeout(() => reject(new ShuttingDownError()), CANCEL_MS));
    if (shutdown.aborted) hurry();
    else shutdown.addEventListener("abort", hurry, { once: true });
    void result.then(resolve, reject).finally(() => {
      clearTimeout(timer);
      shutdown.removeEventListener("abort", hurry);
    });
  });
}

/** Header values are visible ASCII here, whatever a provider calls its models. */
function headerText(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\uFFFD").replace(/[^\x21-\x7e]+/g, encodeURIComponent);
}
