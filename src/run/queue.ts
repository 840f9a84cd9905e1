import type { TaskSet } from "../base/task-set.js";
import { NO_USAGE } from "../conversation/usage.js";
import { RunCancelledError, SessionNotFoundError, ShuttingDownError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { RunInput, RunRecord } from "../ports/run.js";
import type { SessionDriver } from "../ports/session-driver.js";
import { found } from "../sessions/sessions.js";
import { asItIs, isBefore, isOpen } from "../sessions/stored-run.js";
import type { RunPlaces } from "./places.js";
import type { RunContext } from "./run-context.js";
import { Waiter, type Turn } from "./waiter.js";

/** A line is looked at so often, in ms, whatever hints come: one may be lost, and the dead send none. */
const LOOK_MS = 250;
/** When something was asked for, which is its place in line. */
export interface Ticket {
  readonly id: string;
  readonly at: string;
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
    let hasFailed = false;
    const unsubscribe = this.#store.notifier.subscribe(this.#root, () => this.look());
    try {
      while (this.#waiters.length > 0) {
        this.#news = false;
        try {
          await this.#serveOnce();
          hasFailed = false;
        } catch (error) {
          // Once, not with each look.
          if (!hasFailed) this.#options.logger.warn("a line of runs could not be looked at; trying again", { error });
          hasFailed = true;
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
      } else if (await this.#store.get(this.#root)) await waiter.restore();
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
