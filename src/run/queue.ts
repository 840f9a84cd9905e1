import { onAbort } from "../base/abort.js";
import type { TaskSet } from "../base/task-set.js";
import { NO_USAGE } from "../conversation/usage.js";
import { hasCode, RunCancelledError, SessionNotFoundError, ShuttingDownError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { RunInput, RunRecord } from "../ports/run.js";
import type { SessionDriver } from "../ports/session-driver.js";
import { thisHolder } from "../sessions/holder.js";
import { found } from "../sessions/sessions.js";
import { asItIs, isBefore, isOpen } from "../sessions/stored-run.js";
import { ending } from "./execution.js";
import type { RunPlaces } from "./places.js";
import type { RunContext } from "./run-context.js";
import { failed } from "./run-record.js";

/** A line is looked at so often, in ms, whatever hints come: one may be lost, and the dead send none. */
const LOOK_MS = 250;
/** Whoever waits says so again so often, in ms, and is believed so long. */
const RENEW_MS = 10_000;
const BELIEVED_MS = 60_000;

/** When something was asked for, which is its place in line. */
export interface Ticket {
  readonly id: string;
  readonly at: string;
}

/** What a run brings along from the line. */
export interface Turn {
  /** As it is stored. */
  readonly record: RunRecord;
  /** Aborts when somebody cancels it. */
  readonly signal: AbortSignal;
  /** To be called under the chain's lease, before the run is stored as begun: from then on the line writes no more of it. */
  readonly held: () => Promise<void>;
}

/** What the queue needs of the agent that it belongs to. */
export interface RunQueueOptions {
  store: () => Promise<SessionDriver>;
  places: RunPlaces;
  tasks: TaskSet;
  logger: Logger;
}

/**
 * Runs that wait for their session. Each is stored as `queued`, so that all processes of a store see one line, in which
 * whoever asked first comes first; one whose process died is passed over.
 */
export class RunQueue {
  readonly #options: RunQueueOptions;
  readonly #lines = new Map<string, Line>();
  #closed = false;

  constructor(options: RunQueueOptions) {
    this.#options = options;
  }

  /**
   * Wait in line, then `begin`, which may find the session busy all the same: then it waits on. Rejects as `begin`, or
   * with `TooManyRunsError`, `ShuttingDownError`, `SessionNotFoundError`, `RunKeyTakenError`, `StoreError` or
   * `RunCancelledError`; what was stored of it says so then.
   */
  async wait(input: RunInput, { id, at }: Ticket, begin: (turn: Turn) => Promise<RunContext>): Promise<RunContext> {
    const leave = this.#options.places.wait();
    try {
      const store = await this.#options.store();
      const { chain, lastSeq, provider, model } = await found(store, input.sessionId ?? "");
      const root = chain.root;
      const names = { id, sessionId: root, key: input.key ?? "", fingerprint: input.fingerprint ?? "", after: lastSeq };
      const record: RunRecord = {
        ...names,
        state: "queued",
        startedAt: at,
        endedAt: "",
        provider: input.provider ?? provider,
        model: input.model ?? model,
        usage: NO_USAGE,
        iterations: 0,
        endedBy: "",
        error: null,
        line: null,
        retry: null,
        answer: null,
      };
      const waiter = new Waiter(store, record, input, begin, this.#options.logger);
      await waiter.enter();
      if (this.#closed) return await waiter.end(new ShuttingDownError());
      const line = this.#lines.get(root) ?? new Line(root, store, this.#options);
      this.#lines.set(root, line);
      if (line.add(waiter)) void this.#options.tasks.add(line.serve().then(() => void this.#forget(root)));
      return await waiter.run;
    } finally {
      leave();
    }
  }

  #forget(rootId: string): void {
    if (this.#lines.get(rootId)?.isEmpty) this.#lines.delete(rootId);
  }

  /** Something happened to a chain. */
  look(rootId: string): void {
    this.#lines.get(rootId)?.look();
  }

  /** End the waiting of a run of this process, which `ended` says; undefined when it does not wait here. */
  cancel(rootId: string, runId: string): { ended: Promise<unknown> } | undefined {
    const waiter = this.#lines.get(rootId)?.waiter(runId);
    waiter?.cancel(new RunCancelledError());
    return waiter && { ended: waiter.run.catch(() => undefined) };
  }

  /** End the waiting of all runs of a chain in this process. Never rejects. */
  async drop(rootId: string, reason: Error): Promise<void> {
    await this.#lines.get(rootId)?.drop(reason);
  }

  /** Nobody waits from now on. */
  close(): void {
    this.#closed = true;
    for (const line of this.#lines.values()) void line.drop(new ShuttingDownError());
  }
}

/** Those of this process that wait for one chain. */
class Line {
  readonly #root: string;
  readonly #store: SessionDriver;
  readonly #options: RunQueueOptions;
  #waiters: Waiter[] = [];
  #wake = (): void => undefined;
  #news = false;
  #serving = false;

  constructor(root: string, store: SessionDriver, options: RunQueueOptions) {
    this.#root = root;
    this.#store = store;
    this.#options = options;
  }

  get isEmpty(): boolean {
    return this.#waiters.length === 0;
  }

  /** Whether nobody serves yet. */
  add(waiter: Waiter): boolean {
    this.#waiters.push(waiter);
    const gone = () => {
      this.#waiters = this.#waiters.filter((one) => one !== waiter);
      this.look();
    };
    waiter.run.then(gone, gone);
    this.look();
    return !this.#serving;
  }

  waiter(runId: string): Waiter | undefined {
    return this.#waiters.find(({ record }) => record.id === runId);
  }

  look(): void {
    this.#news = true;
    this.#wake();
  }

  async drop(reason: Error): Promise<void> {
    const waiters = [...this.#waiters];
    for (const waiter of waiters) waiter.cancel(reason);
    await Promise.allSettled(waiters.map(({ run }) => run));
  }

  /** Until nobody waits. Never rejects. */
  async serve(): Promise<void> {
    this.#serving = true;
    const unsubscribe = this.#store.notifier.subscribe(this.#root, () => this.look());
    try {
      while (this.#waiters.length > 0) {
        this.#news = false;
        try {
          await this.#serveOnce();
        } catch (error) {
          this.#options.logger.warn("a line of runs could not be looked at; trying again", { error });
        }
        await this.#something();
      }
    } finally {
      this.#serving = false;
      unsubscribe();
    }
  }

  async #serveOnce(): Promise<void> {
    const query = { sessionId: this.#root, states: ["queued", "running", "waiting"] as const };
    const stored = await this.#store.runs({ ...query, limit: Number.MAX_SAFE_INTEGER });
    const open = stored.map(asItIs).filter(isOpen);
    const queued = open.filter(({ state }) => state === "queued").sort((a, b) => (isBefore(a, b) ? -1 : 1));
    const under = open.length - queued.length;
    const instructions = await this.#store.instructions(this.#root);
    for (const waiter of [...this.#waiters]) {
      const { id } = waiter.record;
      const at = queued.findIndex((run) => run.id === id);
      if (instructions.some(({ kind, runId }) => kind === "cancel" && runId === id))
        waiter.cancel(new RunCancelledError());
      else if (waiter.isBeginning) continue;
      else if (at >= 0) {
        await waiter.renew();
        waiter.tell(under + at);
        if (under + at === 0 && !this.#options.places.full) waiter.begin();
      } else if (await this.#store.get(this.#root)) await waiter.store(false);
      else waiter.cancel(new SessionNotFoundError(this.#root));
    }
  }

  /** News, or the time to look for some. */
  #something(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, LOOK_MS);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
      if (this.#news) this.#wake();
    });
  }
}

/** One run in line. */
class Waiter {
  readonly record: RunRecord;
  /** What it becomes. */
  readonly run: Promise<RunContext>;
  isBeginning = false;
  readonly #driver: SessionDriver;
  readonly #input: RunInput;
  readonly #begin: (turn: Turn) => Promise<RunContext>;
  readonly #logger: Logger;
  readonly #cancel = new AbortController();
  #untie = (): void => undefined;
  #resolve: (run: RunContext) => void = () => undefined;
  #reject: (error: Error) => void = () => undefined;
  /** What was written last of it. */
  #writing: Promise<unknown> = Promise.resolve();
  #believedFrom = 0;
  /** Whether somebody else writes of it. */
  #held = false;
  #over = false;
  #ahead = -1;

  constructor(
    driver: SessionDriver,
    record: RunRecord,
    input: RunInput,
    begin: (turn: Turn) => Promise<RunContext>,
    logger: Logger,
  ) {
    this.#driver = driver;
    this.record = record;
    this.#input = input;
    this.#begin = begin;
    this.#logger = logger;
    this.run = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // It may end before anybody waits for it.
    this.run.catch(() => undefined);
  }

  /** Store it before anything can end it. Rejects as `SessionDriver.write`. */
  async enter(): Promise<void> {
    await this.store(true);
    const { signal } = this.#input;
    if (signal) this.#untie = onAbort(signal, () => this.cancel(signal.reason));
  }

  /** Write that it waits. Rejects as `SessionDriver.write`. */
  async store(sync: boolean): Promise<void> {
    if (this.#held || this.#over) return;
    this.#believedFrom = Date.now();
    this.record.line ??= { holder: thisHolder(this.record.id), until: "" };
    this.record.line.until = new Date(Date.now() + BELIEVED_MS).toISOString();
    await this.#write(sync);
  }

  async renew(): Promise<void> {
    if (Date.now() - this.#believedFrom > RENEW_MS) await this.store(false);
  }

  tell(ahead: number): void {
    if (ahead === this.#ahead || this.#over) return;
    this.#ahead = ahead;
    try {
      this.#input.onQueued?.(ahead, structuredClone(this.record));
    } catch (error) {
      this.#logger.error("a listener failed", { error });
    }
  }

  /** It is its turn. */
  begin(): void {
    if (this.#over) return;
    this.isBeginning = true;
    const held = async () => {
      this.#held = true;
      await this.#writing;
    };
    const turn: Turn = { record: this.record, signal: this.#cancel.signal, held };
    const begun = (run: RunContext): void => {
      this.#over = true;
      this.#untie();
      this.#resolve(run);
    };
    const refused = async (error: unknown): Promise<void> => {
      this.#held = false;
      this.isBeginning = false;
      // Whoever had the session has not given it back yet, or somebody came between who asked for no place in line.
      if (!hasCode(error, "session_busy") || this.#cancel.signal.aborted) await this.#leave(error);
    };
    void this.#begin(turn).then(begun, refused);
  }

  /** End its waiting; a run that has begun is cancelled. */
  cancel(reason: unknown): void {
    this.#cancel.abort(reason);
    if (!this.isBeginning) void this.#leave(reason);
  }

  /** As `cancel`, and rejects with why. */
  end(reason: Error): Promise<RunContext> {
    this.cancel(reason);
    return this.run;
  }

  async #leave(error: unknown): Promise<void> {
    if (this.#over) return;
    this.#over = true;
    this.#untie();
    const why = ending(error, this.#cancel.signal);
    Object.assign(this.record, failed(why));
    await this.#write(false).catch((unstored: unknown) =>
      this.#logger.debug("a run's end was not stored", { error: unstored }),
    );
    this.#reject(why);
  }

  /** One after the other: what is written last is what counts. */
  async #write(sync: boolean): Promise<void> {
    const { sessionId } = this.record;
    const write = async () => {
      await this.#driver.write(sessionId, { fence: null, sync, runs: [structuredClone(this.record)] });
      this.#driver.notifier.publish(sessionId);
    };
    const written = this.#writing.then(write);
    this.#writing = written.catch(() => undefined);
    await written;
  }
}
