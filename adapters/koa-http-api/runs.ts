import { RunCancelledError, ShuttingDownError, type Run, type RunRecord, type RunResult as Result } from "gantry";
import { readAttachments } from "gantry/plugin";
import type { Context } from "koa";
import { send, type ApiParts } from "./api.js";
import type { BodyReader } from "./body.js";
import { HttpError, isInternal, toRunRefusal } from "./errors.js";
import type { IdempotentRequest } from "./idempotency.js";
import { readRunRequest, type ParsedRunRequest } from "./run-request.js";
import { CANCEL_MS } from "./serving.js";
import { anySignal } from "./signals.js";
import { SseStream } from "./sse.js";
import type { RunAccepted, RunResult } from "./shapes.js";
import type { StreamLimiter } from "./streams.js";
import type { QueueEvents } from "./queue-events.js";
import { IGNORED_HEADER, MODEL_HEADER, RUN_HEADER, SESSION_HEADER } from "./headers.js";
import { wireDone, wireEvent, wireResult } from "./wire.js";

/** `POST /api/run`. */
export class RunEndpoint {
  readonly #parts: ApiParts;
  readonly #bodies: BodyReader;
  readonly #streams: StreamLimiter;

  constructor(parts: ApiParts, streams: StreamLimiter, bodies: BodyReader) {
    this.#parts = parts;
    this.#bodies = bodies;
    this.#streams = streams;
  }

  async serve(ctx: Context): Promise<void> {
    const gone = new AbortController();
    const { res } = ctx;
    // Listen on the response: a request closes as soon as its body is read.
    res.once("close", () => res.writableFinished || gone.abort(new RunCancelledError()));
    const request = await readRunRequest(await this.#bodies.json(ctx));
    if (request.input.mode !== undefined) {
      const { requirePersonForMode } = await import("./person.js");
      await requirePersonForMode(ctx, this.#parts, { mode: request.input.mode, sessionId: request.sessionId });
    }
    // Set also for runs that fail: a misspelled field may be the cause.
    if (request.ignored.length > 0) ctx.set(IGNORED_HEADER, request.ignored.map(headerText).join(", "));
    if (request.stream) this.#streams.count(ctx, "run");
    const idempotency = ctx.headers["idempotency-key"] === undefined ? undefined : await import("./idempotency.js");
    const key = idempotency?.keyOf(ctx);
    const queueModule = request.queue ? await import("./queue-events.js") : undefined;
    const queueEvents = queueModule && new queueModule.QueueEvents((run) => this.#open(ctx, run), request.stream);
    const find = () =>
      idempotency === undefined || key === undefined
        ? this.#start(request, queueEvents, gone.signal)
        : idempotency.runOnce(this.#parts.agent, key, request.body, (sessionId, named) =>
            this.#start({ ...request, sessionId: request.sessionId ?? sessionId }, queueEvents, gone.signal, named),
          );
    try {
      for (let isOver = false; !isOver;) {
        const run = await find();
        if (!ctx.headerSent) setRunHeaders(ctx, run);
        isOver = true;
        if (request.background) send<typeof RunAccepted>(ctx, { run_id: run.id, session_id: run.sessionId }, 202);
        // A client that waits for an interrupted run then waits for the run that replaces it.
        else if (!("result" in run)) {
          const stream = request.stream ? this.#open(ctx) : undefined;
          const { joinRun } = await import("./idempotency.js");
          isOver = await joinRun(ctx, this.#parts, run, stream, gone.signal, (error) => this.#toHttpError(error));
        } else if (request.stream) await this.#stream(run, queueEvents?.stream ?? this.#open(ctx));
        else await this.#answer(ctx, run);
      }
    } catch (error) {
      if (!queueEvents?.stream) throw error;
      const { message, code } = this.#toHttpError(error);
      queueEvents.stream.end("error", { error: message, code });
    }
  }

  #open(ctx: Context, run?: RunRecord): SseStream {
    if (run) setRunHeaders(ctx, run);
    ctx.respond = false;
    return new SseStream(ctx.res, this.#parts.options.heartbeatMs);
  }

  /** Returns a running run. For a background run that is queued, returns its stored record. */
  async #start(
    request: ParsedRunRequest,
    queueEvents: QueueEvents | undefined,
    gone: AbortSignal,
    named?: IdempotentRequest,
  ): Promise<Run | RunRecord> {
    const { agent, options, shutdown, isLoopback } = this.#parts;
    // A client with an idempotency key reconnects to get the answer.
    const otherwise = request.background || named !== undefined ? "continue" : options.onDisconnect;
    const isTied = (request.onDisconnect ?? otherwise) === "cancel";
    const { projectRoots, allowPaths, deniedPaths } = options;
    const { projectDir: served } = agent;
    let projectDir: string | undefined;
    if (request.projectDir !== undefined) {
      const { resolveProjectFolder } = await import("./projects.js");
      projectDir = await resolveProjectFolder(request.projectDir, {
        projectDir: served,
        roots: projectRoots,
        denied: deniedPaths,
      });
    }
    const policy = { projectDir: projectDir ?? served, anywhere: isLoopback(), allowPaths, deniedPaths };
    const tied = isTied ? anySignal(shutdown, gone) : undefined;
    const started = agent.run({
      message: request.message,
      ...request.input,
      // Read the files when the run has a slot: each occupies memory until the run ends.
      attach:
        request.files.length === 0 ? undefined : (reserve) => readAttachments(request.files, { ...policy, reserve }),
      provider: request.provider,
      model: request.model,
      sessionId: request.sessionId,
      projectDir,
      ...(queueEvents && { queue: true, onQueued: queueEvents.report }),
      clientName: "http",
      ...named,
      signal: tied?.signal ?? shutdown,
      overflow: "drop",
    });
    if (tied) void started.then(({ result }) => result).then(tied.untie, tied.untie);
    // The failure of a queued background run is stored with the run.
    started.catch(() => undefined);
    return request.background && queueEvents ? Promise.race([started, queueEvents.first]) : started;
  }

  async #answer(ctx: Context, run: Run): Promise<void> {
    try {
      send<typeof RunResult>(ctx, wireResult(await resultOrShutdown(run.result, this.#parts.shutdown)));
    } catch (error) {
      throw this.#toHttpError(error);
    }
  }

  async #stream(run: Run, stream: SseStream): Promise<void> {
    const pumped = pump(run, stream);
    try {
      const result = await resultOrShutdown(run.result, this.#parts.shutdown);
      await pumped;
      reportDropped(run, stream);
      const done = wireDone(result.usage, result, result.endedBy);
      await stream.send("agent", done);
      stream.end("done", done);
    } catch (error) {
      const { message, code } = this.#toHttpError(error);
      // At a shutdown there is no time to wait for a slow reader.
      if (!this.#parts.shutdown.aborted) await pumped;
      reportDropped(run, stream);
      stream.end("error", { error: message, code });
    }
  }

  /** Converts a run's error for the client; logs the details that the client does not get. */
  #toHttpError(error: unknown): HttpError {
    const refusal = toRunRefusal(error);
    const { status, message, code, headers } = refusal;
    if (isInternal(refusal)) this.#parts.logger.error("a run failed", { error });
    return new HttpError(status, message, headers, code);
  }
}

/** Sets the response headers with session and run, and with the model if it is already resolved. */
function setRunHeaders(ctx: Context, run: Run | RunRecord): void {
  ctx.set(SESSION_HEADER, headerText(run.sessionId));
  ctx.set(RUN_HEADER, run.id);
  if ("queueLease" in run && run.queueLease !== null) return;
  const model = typeof run.model === "string" ? run.model : run.model.id;
  ctx.set(MODEL_HEADER, headerText(`${run.provider}/${model}`));
}

/** Sends events at the speed of the reader; never rejects. */
async function pump(run: Run, stream: SseStream): Promise<void> {
  try {
    for await (const event of run) {
      if (!stream.open) return;
      const payload = wireEvent(event);
      const room = payload && stream.send("agent", payload);
      if (room) await room;
    }
  } catch {
    // `run.result` reports the error.
  }
}

/** Reports dropped events: a reader that joins the text would otherwise take it for complete. */
function reportDropped(run: Run, stream: SseStream): void {
  if (run.dropped > 0) stream.comment(`${run.dropped} token events were dropped, this reader was too slow`);
}

/** The result, or a `ShuttingDownError` if a cancelled run does not end within `CANCEL_MS`. */
function resultOrShutdown(result: Promise<Result>, shutdown: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const startTimer = () => (timer = setTimeout(() => reject(new ShuttingDownError()), CANCEL_MS));
    if (shutdown.aborted) startTimer();
    else shutdown.addEventListener("abort", startTimer, { once: true });
    void result.then(resolve, reject).finally(() => {
      clearTimeout(timer);
      shutdown.removeEventListener("abort", startTimer);
    });
  });
}

/** Encodes a header value as visible ASCII; names of models may contain anything. */
function headerText(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\uFFFD").replace(/[^\x21-\x7e]+/g, encodeURIComponent);
}
