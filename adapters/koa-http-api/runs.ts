import { RunCancelledError, ShuttingDownError, type Run, type RunRecord, type RunResult as Result } from "gantry";
import { readAttachments } from "gantry/plugin";
import type { Context } from "koa";
import { send, type ApiParts } from "./api.js";
import type { BodyReader } from "./body.js";
import { HttpError, isInternal, runFailure } from "./errors.js";
import type { Named } from "./idempotency.js";
import { runRequest, type RunRequest } from "./run-request.js";
import { CANCEL_MS } from "./serving.js";
import { firstOf } from "./signals.js";
import { SseStream } from "./sse.js";
import type { RunBegun, RunResult } from "./shapes.js";
import type { Streams } from "./streams.js";
import type { Waiting } from "./queue-events.js";
import { IGNORED_HEADER, MODEL_HEADER, RUN_HEADER, SESSION_HEADER } from "./headers.js";
import { wireDone, wireEvent, wireResult } from "./wire.js";

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
    const request = await runRequest(await this.#bodies.json(ctx));
    if (request.input.mode !== undefined) {
      const { requirePersonForMode } = await import("./person.js");
      await requirePersonForMode(ctx, this.#parts, { mode: request.input.mode, sessionId: request.sessionId });
    }
    // Also on the answer of a run that fails: a misspelt name may be why.
    if (request.ignored.length > 0) ctx.set(IGNORED_HEADER, request.ignored.map(headerText).join(", "));
    if (request.stream) this.#streams.count(ctx, "run");
    const repeats = ctx.headers["idempotency-key"] === undefined ? undefined : await import("./idempotency.js");
    const key = repeats?.keyOf(ctx);
    const waiting = request.queue ? await import("./queue-events.js") : undefined;
    const line = waiting && new waiting.Waiting((run) => this.#open(ctx, run), request.stream);
    const find = () =>
      repeats === undefined || key === undefined
        ? this.#start(request, line, gone.signal)
        : repeats.once(this.#parts.agent, key, request.body, (sessionId, named) =>
            this.#start({ ...request, sessionId: request.sessionId ?? sessionId }, line, gone.signal, named),
          );
    try {
      for (let isOver = false; !isOver;) {
        const run = await find();
        if (!ctx.headerSent) name(ctx, run);
        isOver = true;
        if (request.background) send<typeof RunBegun>(ctx, { run_id: run.id, session_id: run.sessionId }, 202);
        // Whoever waits for the answer of a run that breaks off waits for the one that is begun in its place.
        else if (!("result" in run)) {
          const stream = request.stream ? this.#open(ctx) : undefined;
          const { join } = await import("./idempotency.js");
          isOver = await join(ctx, this.#parts, run, stream, gone.signal, (error) => this.#told(error));
        } else if (request.stream) await this.#stream(run, line?.stream ?? this.#open(ctx));
        else await this.#answer(ctx, run);
      }
    } catch (error) {
      if (!line?.stream) throw error;
      const { message, code } = this.#told(error);
      line.stream.end("error", { error: message, code });
    }
  }

  #open(ctx: Context, run?: RunRecord): SseStream {
    if (run) name(ctx, run);
    ctx.respond = false;
    return new SseStream(ctx.res, this.#parts.options.heartbeatMs);
  }

  /** A run that goes, or of a background one that waits in line how it is stored. */
  async #start(
    request: RunRequest,
    line: Waiting | undefined,
    gone: AbortSignal,
    named?: Named,
  ): Promise<Run | RunRecord> {
    const { agent, options, shutdown, isLoopback } = this.#parts;
    // Whoever names a run comes back for its answer.
    const otherwise = request.background || named !== undefined ? "continue" : options.onDisconnect;
    const isTied = (request.onDisconnect ?? otherwise) === "cancel";
    const { projectRoots: roots, allowPaths, deniedPaths } = options;
    const { projectDir: served } = agent;
    let projectDir: string | undefined;
    if (request.projectDir !== undefined) {
      const { projectFolder } = await import("./projects.js");
      projectDir = await projectFolder(request.projectDir, { projectDir: served, roots, denied: deniedPaths });
    }
    const policy = { projectDir: projectDir ?? served, anywhere: isLoopback(), allowPaths, deniedPaths };
    const tied = isTied ? firstOf(shutdown, gone) : undefined;
    const started = agent.run({
      message: request.message,
      ...request.input,
      // Read when the run has its place, for each takes its room in memory until it ends.
      attach:
        request.files.length === 0 ? undefined : (reserve) => readAttachments(request.files, { ...policy, reserve }),
      provider: request.provider,
      model: request.model,
      sessionId: request.sessionId,
      projectDir,
      ...(line && { queue: true, onQueued: line.tell }),
      askedAt: "http",
      ...named,
      signal: tied?.signal ?? shutdown,
      overflow: "drop",
    });
    if (tied) void started.then(({ result }) => result).then(tied.untie, tied.untie);
    // What becomes of one that waits is stored with it.
    started.catch(() => undefined);
    return request.background && line ? Promise.race([started, line.first]) : started;
  }

  async #answer(ctx: Context, run: Run): Promise<void> {
    try {
      send<typeof RunResult>(ctx, wireResult(await ending(run.result, this.#parts.shutdown)));
    } catch (error) {
      throw this.#told(error);
    }
  }

  async #stream(run: Run, stream: SseStream): Promise<void> {
    const pumped = pump(run, stream);
    try {
      const result = await ending(run.result, this.#parts.shutdown);
      await pumped;
      tellDropped(run, stream);
      const done = wireDone(result.usage, result, result.endedBy);
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

/** Say in the answer's headers which run it is, and as far as it is settled, which model answers. */
function name(ctx: Context, run: Run | RunRecord): void {
  ctx.set(SESSION_HEADER, headerText(run.sessionId));
  ctx.set(RUN_HEADER, run.id);
  if ("line" in run && run.line !== null) return;
  const model = typeof run.model === "string" ? run.model : run.model.id;
  ctx.set(MODEL_HEADER, headerText(`${run.provider}/${model}`));
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
function ending(result: Promise<Result>, shutdown: AbortSignal): Promise<Result> {
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
