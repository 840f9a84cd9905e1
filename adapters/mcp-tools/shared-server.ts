import { setTimeout as sleep } from "node:timers/promises";
import type { ToolContext } from "gantry";
import { abortable, ToolError } from "gantry/plugin";
import type { ElicitResult } from "@modelcontextprotocol/client";
import { McpConnection, type ConnectionContext } from "./connection.js";
import { formatProgress } from "./progress.js";
import { McpServerError } from "./server-error.js";
import { elicitFields } from "./elicitation.js";
import { SESSION_LOST_REASON } from "./http-transport.js";
import { CallTimeout } from "./call-timeout.js";
import type { RestartBackoff } from "./restart-backoff.js";
import { summarizeRejected, type Listing } from "./listing.js";
import type { ServerRecord } from "./server-record.js";

/** Minimum interval between two refreshes of the listing. */
const REFRESH_INTERVAL_MS = 1_000;

/** Maximum number of different warnings logged about one server. */
const MAX_LOGGED_REASONS = 32;

/** Maximum number of forms and sampling requests that a server may send during one call. */
const MAX_REQUESTS = 32;
/** No call can answer a request of the server. */
const NO_CALLER_ERROR = new ToolError("no call of one session can answer this request");

/** An active call and the session that made it. */
interface ActiveCall {
  readonly context: ToolContext;
  /** Requests that the server has sent during this call. */
  requestCount: number;
  readonly endController: AbortController;
}

/** `canSample`: whether the server may use the model of the session that calls it. */
type ServerContext = Omit<ConnectionContext, "elicit" | "sample" | "onListChange"> & {
  readonly canSample: boolean;
  readonly record: ServerRecord;
};

/**
 * An MCP server that all sessions with the same definition and folder share. The server starts with the first session
 * and stops with the last.
 */
export class SharedServer {
  readonly #context: ServerContext;
  readonly #backoff: RestartBackoff;
  readonly #endController = new AbortController();
  /** Active calls. A request of the server goes to the session of the call. */
  readonly #activeCalls = new Set<ActiveCall>();
  /** The last request of the server in progress. Users get them one at a time. */
  #lastAnswer: Promise<unknown> = Promise.resolve();
  #userCount = 0;
  #connection: Promise<McpConnection> | undefined;
  #listing: Listing | undefined;
  /** Warnings that have been logged, each once. */
  readonly #loggedReasons = new Set<string>();
  #refreshPromise: Promise<void> | undefined;
  #needsRefresh = false;
  #refreshedAtMs = 0;

  constructor(context: ServerContext, backoff: RestartBackoff) {
    this.#context = context;
    this.#backoff = backoff;
  }

  /** Tools and prompts of the server at the last refresh; empty before the first refresh. */
  get listing(): Listing {
    return this.#listing ?? { tools: [], prompts: [], hasResources: false, instructions: "", rejected: [] };
  }

  get isUnused(): boolean {
    return this.#userCount === 0;
  }

  join(): void {
    this.#userCount += 1;
  }

  /**
   * Removes a user. The last user stops the server; then resolves when the server's process and connections are closed.
   */
  async leave(): Promise<void> {
    this.#userCount -= 1;
    if (this.#userCount > 0) return;
    this.#endController.abort(new Error("the server is no longer needed"));
    const connection = await this.#connection?.catch(() => undefined);
    await connection?.close();
    await this.#refreshPromise;
  }

  /** Returns the connection, and starts the server if necessary. Rejects with `McpServerError` if the start fails. */
  async getConnection(): Promise<McpConnection> {
    for (;;) {
      const connectionPromise = (this.#connection ??= this.#startOpening());
      const connection = await connectionPromise;
      if (!connection.hasEnded) return connection;
      await connection.endPromise;
      if (this.#connection === connectionPromise) this.#connection = undefined;
    }
  }

  #startOpening(): Promise<McpConnection> {
    const connectionPromise = this.#open();
    connectionPromise.catch(() => {
      if (this.#connection === connectionPromise) this.#connection = undefined;
    });
    return connectionPromise;
  }

  /**
   * Sends one request. `context` is the calling session, which answers the server's forms during the call. Rejects with
   * `ToolError`, or with the signal's reason.
   */
  async request(
    method: string,
    params: Readonly<Record<string, unknown>>,
    {
      context,
      signal = context?.signal ?? new AbortController().signal,
      timeoutMs,
    }: { context?: ToolContext; signal?: AbortSignal; timeoutMs: number },
  ): Promise<Readonly<Record<string, unknown>>> {
    const { name } = this.#context.server;
    const timeout = new CallTimeout(timeoutMs, signal);
    const caller = context && { context, requestCount: 0, endController: new AbortController() };
    if (caller) this.#activeCalls.add(caller);
    try {
      for (let attempt = 0; ; attempt++) {
        const connection = await abortable(this.getConnection(), timeout.signal);
        try {
          const onProgress = (progress: Parameters<typeof formatProgress>[0]): void => {
            timeout.restart();
            const progressText = formatProgress(progress);
            if (progressText !== "") context?.progress(`${progressText}\n`);
          };
          this.#timeouts.add(timeout);
          return await connection.request(method, params, { signal: timeout.signal, ...(context && { onProgress }) });
        } catch (error) {
          // A server that lost its session has not processed the request. Sending it once more is safe.
          if (attempt > 0 || !(error instanceof McpServerError) || error.message !== SESSION_LOST_REASON) throw error;
        } finally {
          this.#timeouts.delete(timeout);
        }
      }
    } catch (error) {
      signal.throwIfAborted();
      if (timeout.hasTimedOut) {
        void this.#connection?.then((connection) => connection.checkAlive()).catch(() => undefined);
        throw new ToolError(`${name} did not answer within ${timeoutMs / 1000} s; the tool may have run.`);
      }
      if (!(error instanceof McpServerError)) throw error;
      const doubtNote = error.hasConnectionEnded && method === "tools/call" ? "; the tool may have run" : "";
      throw new ToolError(`${name}: ${this.#context.hide(error.message)}${doubtNote}.`);
    } finally {
      timeout.end();
      if (caller) this.#activeCalls.delete(caller);
      caller?.endController.abort(new Error("the call has ended"));
    }
  }

  /** Timeouts of the requests in progress. A request of the server pauses all of them. */
  readonly #timeouts = new Set<CallTimeout>();

  async #open(): Promise<McpConnection> {
    const { signal } = this.#endController;
    const { logger, server, hide, record } = this.#context;
    const startedAtMs = Date.now();
    signal.throwIfAborted();
    this.#backoff.check(await record.isLoginRequired());
    try {
      const connection = await McpConnection.open(
        {
          ...this.#context,
          elicit: (params, elicitSignal) => this.#elicit(params, elicitSignal),
          ...(this.#context.canSample && { sample: (params, sampleSignal) => this.#sample(params, sampleSignal) }),
          onListChange: () => this.#refreshListing(),
        },
        signal,
      );
      try {
        this.#setListing(await connection.list(signal));
      } catch (error) {
        await connection.close();
        throw error;
      }
      record.recordConnection(connection.endPromise);
      void connection.endPromise.then((reason) => {
        // A server that only lost its session is still running.
        if (signal.aborted || reason === SESSION_LOST_REASON) return;
        const why = reason || "the server did not respond";
        this.#backoff.recordUptime(Date.now() - startedAtMs);
        this.#recordFailure(why, false);
        logger.warn("MCP server exited; it restarts on the next call", { server: server.name, why: hide(why) });
      });
      return connection;
    } catch (error) {
      if (!signal.aborted)
        this.#recordFailure(error instanceof Error ? error.message : String(error), await record.isLoginRequired());
      throw error;
    }
  }

  #recordFailure(reason: string, isLoginRequired: boolean): void {
    this.#backoff.recordFailure(reason, isLoginRequired);
    this.#context.record.recordFailure(reason);
  }

  #setListing(listing: Listing): void {
    this.#listing = listing;
    const { logger, server, hide, record } = this.#context;
    record.listing = listing;
    // Compare the reasons only: the names in a listing may change.
    const newRejections = listing.rejected.filter((rejection) =>
      this.#isNewReason(rejection.slice(rejection.lastIndexOf(": ") + 2)),
    );
    if (newRejections.length === 0) return;
    const rejected = hide(summarizeRejected(listing.rejected));
    logger.warn("MCP server offered invalid tools or prompts; ignored", { server: server.name, left: rejected });
  }

  /** Whether a warning with this reason must be logged. Marks the reason as logged. */
  #isNewReason(reason: string): boolean {
    if (this.#loggedReasons.has(reason) || this.#loggedReasons.size >= MAX_LOGGED_REASONS) return false;
    this.#loggedReasons.add(reason);
    return true;
  }

  /** Refreshes the listing. Several change notifications cause one refresh. */
  #refreshListing(): void {
    this.#needsRefresh = true;
    this.#refreshPromise ??= this.#refreshWhileNeeded().finally(() => (this.#refreshPromise = undefined));
  }

  async #refreshWhileNeeded(): Promise<void> {
    const { signal } = this.#endController;
    while (this.#needsRefresh && !signal.aborted) {
      const waitMs = Math.max(0, this.#refreshedAtMs + REFRESH_INTERVAL_MS - Date.now());
      await sleep(waitMs, undefined, { signal, ref: false }).catch(() => undefined);
      this.#needsRefresh = false;
      this.#refreshedAtMs = Date.now();
      try {
        const connection = await this.#connection;
        if (connection && !connection.hasEnded) this.#setListing(await connection.list(signal));
      } catch (error) {
        if (signal.aborted) return;
        const { logger, server, hide } = this.#context;
        const why = hide(error instanceof Error ? error.message : String(error));
        if (!this.#isNewReason(why)) continue;
        logger.warn("MCP server listing failed; the previous listing stays in use", { server: server.name, why });
      }
    }
  }

  async #sample(params: Readonly<Record<string, unknown>>, signal: AbortSignal) {
    const { sampleMessage } = await import("./sampling.js");
    return this.#answerInCall(signal, (context) => sampleMessage(this.#context.server.name, params, context));
  }

  async #elicit(params: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<ElicitResult> {
    try {
      const { name } = this.#context.server;
      return await this.#answerInCall(signal, ({ askUser }) => elicitFields(name, params, askUser));
    } catch (error) {
      return { action: error === NO_CALLER_ERROR ? "decline" : "cancel" };
    }
  }

  /**
   * Answers a request of the server, such as a form, by the session of the active call. Rejects with `NO_CALLER_ERROR`
   * if calls of several sessions are active, because the request could belong to any of these sessions, or after too
   * many requests of one call. Such requests do not pause the timeout of the call. Also rejects when the call ends.
   */
  async #answerInCall<T>(signal: AbortSignal, work: (context: ToolContext) => Promise<T>): Promise<T> {
    const callers = [...this.#activeCalls];
    const [caller] = callers.slice(-1);
    if (!caller || callers.some(({ context }) => context.sessionId !== caller.context.sessionId)) throw NO_CALLER_ERROR;
    if ((caller.requestCount += 1) > MAX_REQUESTS) throw NO_CALLER_ERROR;
    const endSignal = AbortSignal.any([signal, caller.endController.signal]);
    const answer = this.#lastAnswer.then(() => this.#answer(caller.context, endSignal, work));
    this.#lastAnswer = answer.catch(() => undefined);
    return answer;
  }

  async #answer<T>(
    context: ToolContext,
    endSignal: AbortSignal,
    work: (context: ToolContext) => Promise<T>,
  ): Promise<T> {
    endSignal.throwIfAborted();
    // The time that the user or the model needs does not count.
    for (const timeout of this.#timeouts) timeout.pause();
    try {
      const askUser: ToolContext["askUser"] = (request) =>
        endSignal.aborted ? Promise.resolve(undefined) : context.askUser(request);
      return await abortable(work({ ...context, askUser }), endSignal);
    } finally {
      for (const timeout of this.#timeouts) timeout.restart();
    }
  }
}
