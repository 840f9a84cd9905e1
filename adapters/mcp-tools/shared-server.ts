import type { ToolContext } from "gantry";
import { ToolError } from "gantry/plugin";
import type { ElicitResult } from "@modelcontextprotocol/client";
import { Connection, Fault, type ConnectionContext } from "./connection.js";
import { elicited } from "./elicitation.js";
import { FORGOTTEN } from "./http-transport.js";
import { line } from "./printable-text.js";
import { Patience } from "./call-timeout.js";
import type { Pauses } from "./restart-backoff.js";
import { inALine, type Listing } from "./listing.js";

/** Between two looks at what it offers, in ms. */
const LOOK_MS = 1_000;

/** Of what is wrong with one server so much is said. */
const REASONS = 32;

/** Forms that a server may ask a person to fill in during one call. */
const FORMS = 32;

/** A call under way, and who made it. */
interface Caller {
  readonly context: ToolContext;
  /** Asked of a person so far. */
  forms: number;
  readonly over: AbortController;
}

/** A server as all the sessions have it that are to have the same: begun with the first, ended with the last. */
export class SharedServer {
  readonly #context: Omit<ConnectionContext, "elicit" | "changed">;
  readonly #pauses: Pauses;
  readonly #end = new AbortController();
  /** Calls under way: whoever made them may be asked. */
  readonly #calls = new Set<Caller>();
  /** Forms are put to a person one after the other. */
  #turn: Promise<unknown> = Promise.resolve();
  #users = 0;
  #connection: Promise<Connection> | undefined;
  #listing: Listing | undefined;
  /** Reasons why something of it could not be used, and failures, that were said. */
  readonly #said = new Set<string>();
  #looking: Promise<void> | undefined;
  #lookAgain = false;
  #looked = 0;

  constructor(context: Omit<ConnectionContext, "elicit" | "changed">, pauses: Pauses) {
    this.#context = context;
    this.#pauses = pauses;
  }

  /** As it was when it was looked at last. */
  get listing(): Listing {
    return this.#listing ?? { tools: [], prompts: [], hasResources: false, left: [] };
  }

  get unused(): boolean {
    return this.#users === 0;
  }

  join(): void {
    this.#users += 1;
  }

  /** One user less; with the last it ends. Resolves when nothing of it is left. */
  async leave(): Promise<void> {
    this.#users -= 1;
    if (this.#users > 0) return;
    this.#end.abort(new Error("it is not needed any more"));
    const connection = await this.#connection?.catch(() => undefined);
    await connection?.close();
    await this.#looking;
  }

  /** The server, started where it is not there. Rejects with `Fault`: why it cannot be had. */
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

  /** One question to it; who asks, and may be asked by it meanwhile, is `context`. Rejects with `ToolError` or the signal's reason. */
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
    const time = new Patience(timeoutMs, signal);
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
          // Of a session that it forgot nothing was done, so that it may be asked again.
          if (round > 0 || !(error instanceof Fault) || error.message !== FORGOTTEN) throw error;
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
      if (!(error instanceof Fault)) throw error;
      const doubt = error.ended && method === "tools/call" ? "; whether it did its work is not known" : "";
      throw new ToolError(`${name}: ${this.#context.hide(error.message)}${doubt}.`);
    } finally {
      time.end();
      if (caller) this.#calls.delete(caller);
      caller?.over.abort(new Error("the call is over"));
    }
  }

  readonly #waits = new Set<Patience>();

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
        // One that only forgot us is there.
        if (signal.aborted || why === FORGOTTEN) return;
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
    // Names that change are no news, reasons are.
    const news = listing.left.filter((one) => this.#isNews(one.slice(one.lastIndexOf(": ") + 2)));
    if (news.length === 0) return;
    const left = hide(inALine(listing.left));
    logger.warn("what a server of tools offers could not all be used", { server: server.name, left });
  }

  /** Whether it was not said before. */
  #isNews(reason: string): boolean {
    if (this.#said.has(reason) || this.#said.size >= REASONS) return false;
    this.#said.add(reason);
    return true;
  }

  /** Look at what it offers now, once for however many changes it tells of. */
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

  /** Only whoever made the one call that is under way can be meant; of several sessions none is asked what another one's call wants. */
  async #elicit(params: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<ElicitResult> {
    const callers = [...this.#calls];
    const [caller] = callers.slice(-1);
    if (!caller || callers.some(({ context }) => context.sessionId !== caller.context.sessionId))
      return { action: "decline" };
    // Whoever asks without end is not answered, and has the time of the call alone.
    if ((caller.forms += 1) > FORMS) return { action: "decline" };
    const over = AbortSignal.any([signal, caller.over.signal]);
    const turn = this.#turn.then(() => this.#ask(params, caller, over));
    this.#turn = turn;
    return turn;
  }

  /** Never rejects. */
  async #ask(params: Readonly<Record<string, unknown>>, { context }: Caller, over: AbortSignal): Promise<ElicitResult> {
    if (over.aborted) return { action: "cancel" };
    // A person may take their time.
    for (const time of this.#waits) time.hold();
    try {
      const question: ToolContext["question"] = (one) =>
        over.aborted ? Promise.resolve(undefined) : context.question(one);
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

/** The promise's outcome, or the signal's reason if that comes first. */
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
