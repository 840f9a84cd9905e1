import { RunCancelledError, ShuttingDownError, type Run, type RunRecord, type RunResult as Result } from "gantry";
import { getLogFields } from "gantry/http";
import { readAttachments } from "gantry/plugin";
import type { Context } from "koa";
import { abortWith, createDisconnectController, sendJson, type ApiDependencies } from "./api.js";
import { Fields, type BodyReader } from "./body.js";
import { HttpError, isInternal, toRunRefusal } from "./errors.js";
import type { IdempotentRequest } from "./idempotency.js";
import { RunRequest } from "./request-shapes.js";
import type { RunExtras } from "./run-extras.js";
import { CANCEL_TIMEOUT_MS } from "./http-serving.js";
import { SseStream } from "./sse.js";
import type { RunAccepted, RunResult } from "./shapes.js";
import type { StreamLimiter } from "./stream-limiter.js";
import type { QueueEvents } from "./queue-events.js";
import { IGNORED_HEADER, MODEL_HEADER, RUN_HEADER, SESSION_HEADER } from "./headers.js";
import { toWireDone, toWireEvent, toWireResult } from "./wire.js";

/** The checked body of `POST /api/run`. */
interface ParsedRunRequest extends RunExtras {
  message: string;
  /** Undefined for `provider` and `model`: the model of the session, or the preferred model. */
  provider: string | undefined;
  model: string | undefined;
  /** Undefined: the run creates a session. */
  sessionId: string | undefined;
  /** Paths as sent. */
  files: readonly string[];
  stream: boolean;
  /** The complete body as sent. */
  body: Readonly<Record<string, unknown>>;
  /** Names of ignored fields; at most `MAX_IGNORED_FIELDS`. */
  ignoredFields: readonly string[];
}

const DEFAULT_EXTRAS: RunExtras = {
  projectDir: undefined,
  background: false,
  queue: false,
  onDisconnect: undefined,
  input: {},
};
/** Fields that need no `RunExtras`. */
const COMMON_FIELDS: ReadonlySet<string> = new Set(["message", "provider", "model", "session_id", "files", "stream"]);
/** Maximum number of reported ignored fields, and of characters of each. */
const MAX_IGNORED_FIELDS = 10;
const MAX_IGNORED_NAME_CHARACTERS = 64;

/** `POST /api/run`. */
export class RunEndpoint {
  readonly #dependencies: ApiDependencies;
  readonly #bodyReader: BodyReader;
  readonly #streamLimiter: StreamLimiter;

  constructor(dependencies: ApiDependencies, streamLimiter: StreamLimiter, bodyReader: BodyReader) {
    this.#dependencies = dependencies;
    this.#bodyReader = bodyReader;
    this.#streamLimiter = streamLimiter;
  }

  async serve(ctx: Context): Promise<void> {
    const disconnectController = createDisconnectController(ctx, () => new RunCancelledError());
    const request = await readRunRequest(await this.#bodyReader.readJson(ctx));
    const { traceparent } = ctx.headers;
    if (typeof traceparent === "string") request.input = { ...request.input, trace: traceparent };
    if (request.input.mode !== undefined) {
      const { requirePersonForMode } = await import("./person.js");
      await requirePersonForMode(ctx, this.#dependencies, { mode: request.input.mode, sessionId: request.sessionId });
    }
    if (request.input.rewind) {
      const { requireRewind } = await import("./rewind-routes.js");
      requireRewind(this.#dependencies, ctx);
    }
    // Set the header also for runs that fail: a misspelled field may be the cause.
    if (request.ignoredFields.length > 0)
      ctx.set(IGNORED_HEADER, request.ignoredFields.map(encodeHeaderValue).join(", "));
    if (request.stream) this.#streamLimiter.reserveSlot(ctx, "run");
    const idempotency = ctx.headers["idempotency-key"] === undefined ? undefined : await import("./idempotency.js");
    const key = idempotency?.readIdempotencyKey(ctx);
    const queueModule = request.queue ? await import("./queue-events.js") : undefined;
    const queueEvents = queueModule && new queueModule.QueueEvents((run) => this.#openStream(ctx, run), request.stream);
    const findOrStartRun = () =>
      idempotency === undefined || key === undefined
        ? this.#startRun(ctx, request, queueEvents, disconnectController)
        : idempotency.runOnce(this.#dependencies.agent, key, request.body, (sessionId, idempotentRequest) =>
            this.#startRun(
              ctx,
              // An interrupted run starts again in its session, which has its worktree already.
              sessionId === undefined ? request : continueSession(request, sessionId),
              queueEvents,
              disconnectController,
              idempotentRequest,
            ),
          );
    try {
      for (let isAnswered = false; !isAnswered;) {
        const run = await findOrStartRun();
        if (!ctx.headerSent) setRunHeaders(ctx, run);
        isAnswered = true;
        if (request.background) sendJson<typeof RunAccepted>(ctx, { run_id: run.id, session_id: run.sessionId }, 202);
        // If the joined run is interrupted, the loop continues with the run that replaces it.
        else if (!("result" in run)) {
          const stream = request.stream ? this.#openStream(ctx) : undefined;
          const { joinRun } = await import("./idempotency.js");
          isAnswered = await joinRun(ctx, this.#dependencies, run, stream, disconnectController, (error) =>
            this.#toHttpError(ctx, error, run),
          );
        } else if (request.stream) await this.#sendStream(ctx, run, queueEvents?.stream ?? this.#openStream(ctx));
        else await this.#sendResult(ctx, run);
      }
    } catch (error) {
      if (!queueEvents?.stream) throw error;
      const { message, code } = this.#toHttpError(ctx, error);
      queueEvents.stream.end("error", { error: message, code });
    }
  }

  #openStream(ctx: Context, run?: RunRecord): SseStream {
    if (run) setRunHeaders(ctx, run);
    ctx.respond = false;
    return new SseStream(ctx.res, this.#dependencies.options.heartbeatMs);
  }

  /** Starts a run. Resolves when the run has started. For a queued background run, resolves with its stored record. */
  async #startRun(
    ctx: Context,
    request: ParsedRunRequest,
    queueEvents: QueueEvents | undefined,
    disconnectController: AbortController,
    idempotentRequest?: IdempotentRequest,
  ): Promise<Run | RunRecord> {
    const { agent, options, shutdownSignal, isLoopback } = this.#dependencies;
    // A client with an idempotency key reconnects to get the answer.
    const defaultOnDisconnect =
      request.background || idempotentRequest !== undefined ? "continue" : options.onDisconnect;
    const cancelsOnDisconnect = (request.onDisconnect ?? defaultOnDisconnect) === "cancel";
    const { projectRoots, allowPaths, deniedPaths } = options;
    const { projectDir: servedDir } = agent;
    let projectDir: string | undefined;
    if (request.projectDir !== undefined) {
      const { resolveProjectFolder } = await import("./projects.js");
      projectDir = await resolveProjectFolder(request.projectDir, {
        projectDir: servedDir,
        roots: projectRoots,
        deniedPaths,
      });
    }
    const removeListener = cancelsOnDisconnect ? abortWith(disconnectController, shutdownSignal) : () => undefined;
    const startedRun = agent.run({
      message: request.message,
      ...request.input,
      // Read the files when the run has a slot: each file occupies memory until the run ends.
      attach:
        request.files.length === 0
          ? undefined
          : (reserve) =>
              readAttachments(request.files, {
                projectDir: projectDir ?? servedDir,
                anywhere: isLoopback(),
                allowPaths,
                deniedPaths,
                reserve,
              }),
      provider: request.provider,
      model: request.model,
      sessionId: request.sessionId,
      projectDir,
      ...(queueEvents && { queue: true, onQueued: queueEvents.report }),
      clientName: "http",
      logFields: getLogFields(ctx.req),
      ...idempotentRequest,
      signal: cancelsOnDisconnect ? disconnectController.signal : shutdownSignal,
      overflow: "drop",
    });
    // The failure of a queued background run is stored with the run.
    void startedRun.then(({ result }) => result).then(removeListener, removeListener);
    return request.background && queueEvents ? Promise.race([startedRun, queueEvents.queuedRun]) : startedRun;
  }

  async #sendResult(ctx: Context, run: Run): Promise<void> {
    try {
      sendJson<typeof RunResult>(ctx, toWireResult(await waitForResult(run.result, this.#dependencies.shutdownSignal)));
    } catch (error) {
      throw this.#toHttpError(ctx, error, run);
    }
  }

  async #sendStream(ctx: Context, run: Run, stream: SseStream): Promise<void> {
    const eventSending = sendRunEvents(run, stream);
    try {
      const result = await waitForResult(run.result, this.#dependencies.shutdownSignal);
      await eventSending;
      reportDroppedEvents(run, stream);
      const doneEvent = toWireDone(result.usage, result, result.endedBy);
      await stream.send("agent", doneEvent);
      stream.end("done", doneEvent);
    } catch (error) {
      const { message, code } = this.#toHttpError(ctx, error, run);
      // At a shutdown there is no time to wait for a slow reader.
      if (!this.#dependencies.shutdownSignal.aborted) await eventSending;
      reportDroppedEvents(run, stream);
      stream.end("error", { error: message, code });
    }
  }

  /** Converts a run's error for the client; logs the details that the client does not get. */
  #toHttpError(ctx: Context, error: unknown, run?: Pick<RunRecord, "id" | "sessionId">): HttpError {
    const refusal = toRunRefusal(error);
    const { status, message, code, headers } = refusal;
    const runFields = run && { run: run.id, session: run.sessionId };
    if (isInternal(refusal))
      this.#dependencies.logger.error("a run failed", { ...runFields, ...getLogFields(ctx.req), error });
    return new HttpError(status, message, headers, code);
  }
}

/** Checks the body of `POST /api/run`. Rejects with `HttpError`. */
async function readRunRequest(body: Readonly<Record<string, unknown>>): Promise<ParsedRunRequest> {
  const fields = new Fields(RunRequest, body);
  const isRetry = Object.hasOwn(body, "retry") && body["retry"] === true;
  const message = Object.hasOwn(body, "message") ? body["message"] : isRetry && "";
  const attachments = Object.hasOwn(body, "attachments") && body["attachments"];
  const hasAttachments = Array.isArray(attachments) && attachments.length > 0;
  const isCompaction = Object.hasOwn(body, "compact") && body["compact"] === true;
  if (typeof message !== "string" || (!hasAttachments && !isCompaction && !isRetry && message.trim() === ""))
    throw new HttpError(400, "message is required", {}, "message_required");
  const files = fields.get("files") ?? [];
  const stream = fields.get("stream") ?? false;
  const hasOnlyCommonFields = Object.keys(body).every((name) => COMMON_FIELDS.has(name));
  return {
    ...(hasOnlyCommonFields ? DEFAULT_EXTRAS : (await import("./run-extras.js")).readRunExtras(body, fields, stream)),
    message,
    provider: fields.getText("provider"),
    model: fields.getText("model"),
    sessionId: fields.getText("session_id"),
    files,
    stream,
    body,
    ignoredFields: Object.keys(body)
      .filter((name) => !Object.hasOwn(RunRequest.entries, name))
      .slice(0, MAX_IGNORED_FIELDS)
      .map((name) => name.slice(0, MAX_IGNORED_NAME_CHARACTERS)),
  };
}

function continueSession(request: ParsedRunRequest, sessionId: string): ParsedRunRequest {
  const { worktree: _, ...input } = request.input;
  const projectDir = request.input.worktree ? undefined : request.projectDir;
  return { ...request, input, projectDir, sessionId: request.sessionId ?? sessionId };
}

/** Sets the response headers with session and run, and with the model unless the run is queued. */
function setRunHeaders(ctx: Context, run: Run | RunRecord): void {
  ctx.set(SESSION_HEADER, encodeHeaderValue(run.sessionId));
  ctx.set(RUN_HEADER, run.id);
  if ("queueLease" in run && run.queueLease !== null) return;
  const model = typeof run.model === "string" ? run.model : run.model.id;
  ctx.set(MODEL_HEADER, encodeHeaderValue(`${run.provider}/${model}`));
}

/** Sends the run's events as fast as the reader reads. Resolves after the last event; never rejects. */
async function sendRunEvents(run: Run, stream: SseStream): Promise<void> {
  try {
    for await (const event of run) {
      if (!stream.isOpen) return;
      const payload = toWireEvent(event);
      const readerReady = payload && stream.send("agent", payload);
      if (readerReady) await readerReady;
    }
  } catch {
    // `run.result` reports the error.
  }
}

/** Reports dropped events: without the report, a reader could consider the joined text complete. */
function reportDroppedEvents(run: Run, stream: SseStream): void {
  if (run.droppedTokenEvents > 0)
    stream.sendComment(`${run.droppedTokenEvents} token events were dropped, this reader was too slow`);
}

/**
 * Waits for the result. Rejects with `ShuttingDownError` if a cancelled run does not end within `CANCEL_TIMEOUT_MS`.
 */
function waitForResult(result: Promise<Result>, shutdownSignal: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined;
    const startTimer = () => (timer = setTimeout(() => reject(new ShuttingDownError()), CANCEL_TIMEOUT_MS));
    if (shutdownSignal.aborted) startTimer();
    else shutdownSignal.addEventListener("abort", startTimer, { once: true });
    void result.then(resolve, reject).finally(() => {
      clearTimeout(timer);
      shutdownSignal.removeEventListener("abort", startTimer);
    });
  });
}

/** Encodes a header value as visible ASCII; names of models may contain anything. */
function encodeHeaderValue(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\uFFFD").replace(/[^\x21-\x7e]+/g, encodeURIComponent);
}
