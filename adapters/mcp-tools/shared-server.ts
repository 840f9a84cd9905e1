import type { ToolContext } from "gantry";
import { ToolError } from "gantry/plugin";
import type { ElicitResult } from "@modelcontextprotocol/client";
import { Connection, McpServerError, type ConnectionContext } from "./connection.js";
import { elicited } from "./elicitation.js";
import { SESSION_LOST } from "./http-transport.js";
import { line } from "./printable-text.js";
import { CallTimeout } from "./call-timeout.js";
import type { RestartBackoff } from "./restart-backoff.js";
import { inALine, type Listing } from "./listing.js";

/** Minimum interval between two refreshes of the listing. */
const LOOK_MS = 1_000;

/** Maximum number of different warnings logged about one server. */
const REASONS = 32;

/** Maximum number of forms that a server may send during one call. */
const FORMS = 32;

/** An active call and the session that made it. */
interface Caller {
  readonly context: ToolContext;
  /** Forms that the server has sent during this call. */
  forms: number;
  readonly over: AbortController;
}

/**
 * One MCP server that all sessions with the same definition and folder share. It starts with the first session and
 * stops with the last.
 */
export class SharedServer {
  readonly #context: Omit<ConnectionContext, "elicit" | "changed">;
  readonly #pauses: RestartBackoff;
  readonly #end = new AbortController();
  /** Active calls. A form of the server goes to the session of the call. */
  readonly #calls = new Set<Caller>();
  /** The last form in progress. Forms are shown to users one at a time. */
  #turn: Promise<unknown> = Promise.resolve();
  #users = 0;
  #connection: Promise<Connection> | undefined;
  #listing: Listing | undefined;
  /** Warnings that have been logged, each once. */
  readonly #said = new Set<string>();
  #looking: Promise<void> | undefined;
  #lookAgain = false;
  #looked = 0;

  constructor(context: Omit<ConnectionContext, "elicit" | "changed">, pauses: RestartBackoff) {
    this.#context = context;
    this.#pauses = pauses;
  }

  /** What the server offered at the last refresh; empty before the first. */
  get listing(): Listing {
    return this.#listing ?? { tools: [], prompts: [], hasResources: false, left: [] };
  }

  get unused(): boolean {
    return this.#users === 0;
  }

  join(): void {
    this.#users += 1;
  }

  /** Removes a user. After the last one the server stops. Resolves when its process and connections are closed. */
  async leave(): Promise<void> {
    this.#users -= 1;
    if (this.#users > 0) return;
    this.#end.abort(new Error("it is not needed any more"));
    const connection = await this.#connection?.catch(() => undefined);
    await connection?.close();
    await this.#looking;
  }

  /** Returns the connection, and starts the server if necessary. Rejects with `McpServerError` if it is unavailable. */
  async ready(): Promise<Connection> {
    for (;;) {
      const opening = (this.#connection ??= this.#opened());
      const connection = await opening;
      if (!connection.isOver) return connection;
      await connection.ended;
      if (this.#connection === opening) this.#connection = undefined;
    }
  }

  #opened(): Promise<Connection> {
    const opening = this.#open();
    opening.catch(() => {
      if (this.#connection === opening) this.#connection = undefined;
    });
    return opening;
  }

  /**
   * Sends one request. `context` is the calling session, which answers the server's forms during the call. Rejects with
   * `ToolError`, or with the signal's reason.
   */
  async ask(
    method: string,
    params: Readonly<Record<string, unknown>>,
    {
      context,
      signal = context?.signal ?? new AbortController().signal,
      timeoutMs,
    }: { context?: ToolContext; signal?: AbortSignal; timeoutMs: number },
  ): Promise<Readonly<Record<string, unknown>>> {
    const { name } = this.#context.server;
    const time = new CallTimeout(timeoutMs, signal);
    const caller = context && { context, forms: 0, over: new AbortController() };
    if (caller) this.#calls.add(caller);
    try {
      for (let round = 0; ; round++) {
        const connection = await abortable(this.ready(), time.signal);
        try {
          const onProgress = (said: Parameters<typeof progressLine>[0]): void => {
            time.again();
            const told = progressLine(said);
            if (told !== "") context?.progress(`${told}\n`);
          };
          this.#waits.add(time);
          return await connection.ask(method, params, { signal: time.signal, ...(context && { onProgress }) });
        } catch (error) {
          // A server that lost its session has not processed the request. Sending it once more is safe.
          if (round > 0 || !(error instanceof McpServerError) || error.message !== SESSION_LOST) throw error;
        } finally {
          this.#waits.delete(time);
        }
      }
    } catch (error) {
      signal.throwIfAborted();
      if (time.isOver) {
        void this.#connection?.then((connection) => connection.checkAlive()).catch(() => undefined);
        throw new ToolError(
          `${name} did not answer within ${timeoutMs / 1000} s; whether it did its work is not known.`,
        );
      }
      if (!(error instanceof McpServerError)) throw error;
      const doubt = error.ended && method === "tools/call" ? "; whether it did its work is not known" : "";
      throw new ToolError(`${name}: ${this.#context.hide(error.message)}${doubt}.`);
    } finally {
      time.end();
      if (caller) this.#calls.delete(caller);
      caller?.over.abort(new Error("the call is over"));
    }
  }

  readonly #waits = new Set<CallTimeout>();

  async #open(): Promise<Connection> {
    const { signal } = this.#end;
    const began = Date.now();
    signal.throwIfAborted();
    this.#pauses.check();
    try {
      const connection = await Connection.open(
        { ...this.#context, elicit: (params, given) => this.#elicit(params, given), changed: () => this.#look() },
        signal,
      );
      try {
        this.#offers(await connection.list(signal));
      } catch (error) {
        await connection.close();
        throw error;
      }
      const { logger, server, hide } = this.#context;
      void connection.ended.then((why) => {
        // A server that only lost its session is still running.
        if (signal.aborted || why === SESSION_LOST) return;
        this.#pauses.lived(Date.now() - began);
        this.#pauses.failed(why || "it answered nothing");
        logger.warn("a server of tools has ended; it is started again when it is needed", {
          server: server.name,
          why: hide(why || "it answered nothing"),
        });
      });
      return connection;
    } catch (error) {
      if (!signal.aborted) this.#pauses.failed(error instanceof Error ? error.message : String(error));
      throw error;
    }
  }

  #offers(listing: Listing): void {
    this.#listing = listing;
    const { logger, server, hide } = this.#context;
    // Compare the reasons only: the names in a listing may change.
    const news = listing.left.filter((one) => this.#isNews(one.slice(one.lastIndexOf(": ") + 2)));
    if (news.length === 0) return;
    const left = hide(inALine(listing.left));
    logger.warn("what a server of tools offers could not all be used", { server: server.name, left });
  }

  /** Whether the reason has not been logged yet. Marks it as logged. */
  #isNews(reason: string): boolean {
    if (this.#said.has(reason) || this.#said.size >= REASONS) return false;
    this.#said.add(reason);
    return true;
  }

  /** Refreshes the listing. Several change notifications cause one refresh. */
  #look(): void {
    this.#lookAgain = true;
    this.#looking ??= this.#lookWhile().finally(() => (this.#looking = undefined));
  }

  async #lookWhile(): Promise<void> {
    const { signal } = this.#end;
    while (this.#lookAgain && !signal.aborted) {
      await pause(this.#looked + LOOK_MS - Date.now(), signal);
      this.#lookAgain = false;
      this.#looked = Date.now();
      try {
        const connection = await this.#connection;
        if (connection && !connection.isOver) this.#offers(await connection.list(signal));
      } catch (error) {
        if (signal.aborted) return;
        const { logger, server, hide } = this.#context;
        const why = hide(error instanceof Error ? error.message : String(error));
        if (!this.#isNews(why)) continue;
        logger.warn("a server of tools did not tell what it offers now", { server: server.name, why });
      }
    }
  }

  /**
   * Sends a form to the session of the active call. Declines if calls of several sessions are active: the form could
   * belong to any of them.
   */
  async #elicit(params: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<ElicitResult> {
    const callers = [...this.#calls];
    const [caller] = callers.slice(-1);
    if (!caller || callers.some(({ context }) => context.sessionId !== caller.context.sessionId))
      return { action: "decline" };
    // Further forms are declined and do not pause the timeout of the call.
    if ((caller.forms += 1) > FORMS) return { action: "decline" };
    const over = AbortSignal.any([signal, caller.over.signal]);
    const turn = this.#turn.then(() => this.#ask(params, caller, over));
    this.#turn = turn;
    return turn;
  }

  async #ask(params: Readonly<Record<string, unknown>>, { context }: Caller, over: AbortSignal): Promise<ElicitResult> {
    if (over.aborted) return { action: "cancel" };
    // The time that the user needs does not count.
    for (const time of this.#waits) time.hold();
    try {
      const question: ToolContext["askUser"] = (one) =>
        over.aborted ? Promise.resolve(undefined) : context.askUser(one);
      return await abortable(elicited(this.#context.server.name, params, question), over);
    } catch {
      return { action: "cancel" };
    } finally {
      for (const time of this.#waits) time.again();
    }
  }
}

function progressLine({
  progress,
  total,
  message,
}: {
  progress?: number;
  total?: number | undefined;
  message?: string | undefined;
}): string {
  const share =
    typeof progress === "number" ? (typeof total === "number" ? `${progress}/${total}` : String(progress)) : "";
  const said = line(message).slice(0, 1_000);
  return [share, said].filter((one) => one !== "").join(" ");
}

/** Settles like the promise, or rejects with the signal's reason if that comes first. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0) return;
  await abortable(new Promise<void>((resolve) => setTimeout(resolve, ms).unref()), signal).catch(() => undefined);
}
