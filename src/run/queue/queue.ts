import type { TaskSet } from "../../base/task-set.js";
import { NO_USAGE } from "../../conversation/usage.js";
import {
  hasCode,
  RunCancelledError,
  SessionNotFoundError,
  ShuttingDownError,
  TooManyRunsError,
} from "../../ports/errors.js";
import type { Logger } from "../../ports/logger.js";
import type { Instruction, RunInput, RunRecord } from "../../ports/run.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import { Looks } from "../../sessions/poll-schedule.js";
import { found } from "../../sessions/require-session.js";
import { asItIs, isBefore, isOpen } from "../../sessions/stored-run.js";
import type { RunPlaces } from "../budget/concurrency.js";
import { Waiter, type Turn } from "./queued-run.js";
import { notifierOf } from "../../sessions/polling-notifier.js";

/** A line is looked at so often, in ms, also without a hint: the dead send none. */
const LOOK_MS = 1_000;
/** So often, in ms, at most for hints, and where it is the turn of one that could not begin: no hint says that a lease is free. */
const GAP_MS = 250;
/** Runs of one process that may wait for one session, so that runs of other sessions find a place. */
const MAX_WAITING_RUNS = 100;
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
export class RunQueue<Run> {
  readonly #options: RunQueueOptions;
  readonly #lines = new Map<string, Line<Run>>();
  /** By session; runs count before they are stored. */
  readonly #waitingBySessionId = new Map<string, number>();
  #closed = false;

  constructor(options: RunQueueOptions) {
    this.#options = options;
  }

  /**
   * Wait in line, then `begin`, which may find the session busy all the same: then it waits on. Rejects as `begin`, or
   * with `TooManyRunsError`, `ShuttingDownError`, `SessionNotFoundError`, `RunKeyTakenError`, `StoreError` or
   * `RunCancelledError`; what was stored of it says so then.
   */
  async wait(input: RunInput, { id, at }: Ticket, begin: (turn: Turn) => Promise<Run>): Promise<Run> {
    const leave = this.#options.places.wait();
    let leaveSession = (): void => undefined;
    try {
      const store = await this.#options.store();
      const { chain, lastSeq, provider, model } = await found(store, input.sessionId ?? "");
      const root = chain.root;
      leaveSession = this.#countIn(root);
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
      leaveSession();
      leave();
    }
  }

  /** Throws `TooManyRunsError`. Call what is returned when the run waits no more. */
  #countIn(root: string): () => void {
    const count = this.#waitingBySessionId.get(root) ?? 0;
    if (count >= MAX_WAITING_RUNS) throw new TooManyRunsError(1000, "too many runs wait for this session");
    this.#waitingBySessionId.set(root, count + 1);
    return () => {
      const left = (this.#waitingBySessionId.get(root) ?? 0) - 1;
      if (left > 0) this.#waitingBySessionId.set(root, left);
      else this.#waitingBySessionId.delete(root);
    };
  }

  #forget(rootId: string): void {
    if (this.#lines.get(rootId)?.isEmpty) this.#lines.delete(rootId);
  }

  /** A run of a chain has ended in this process. */
  look(rootId: string): void {
    this.#lines.get(rootId)?.look();
    // There is a place for one more.
    for (const line of this.#lines.values())
      if (line.wantsPlace) {
        line.look();
        break;
      }
  }

  /** Settles when a run of this process waits no more; undefined when it does not wait here. Never rejects. */
  waits(rootId: string, runId: string): Promise<unknown> | undefined {
    return this.#lines
      .get(rootId)
      ?.waiter(runId)
      ?.run.catch(() => undefined);
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
class Line<Run> {
  readonly #root: string;
  readonly #store: SessionDriver;
  readonly #options: RunQueueOptions;
  #waiters: Waiter<Run>[] = [];
  #looks: Looks | undefined;
  /** It is the turn of one of these, which may fail to begin. */
  #isNext = false;
  #wantsPlace = false;

  constructor(root: string, store: SessionDriver, options: RunQueueOptions) {
    this.#root = root;
    this.#store = store;
    this.#options = options;
  }

  get isEmpty(): boolean {
    return this.#waiters.length === 0;
  }

  /** Whether it is the turn of one, and all places are taken. */
  get wantsPlace(): boolean {
    return this.#wantsPlace;
  }

  /** Whether nobody serves yet. */
  add(waiter: Waiter<Run>): boolean {
    this.#waiters.push(waiter);
    const gone = () => {
      this.#waiters = this.#waiters.filter((one) => one !== waiter);
      this.look();
    };
    waiter.run.then(gone, gone);
    this.look();
    return this.#looks === undefined;
  }

  waiter(runId: string): Waiter<Run> | undefined {
    return this.#waiters.find(({ record }) => record.id === runId);
  }

  look(): void {
    this.#looks?.now();
  }

  async drop(reason: Error): Promise<void> {
    const waiters = [...this.#waiters];
    for (const waiter of waiters) waiter.cancel(reason);
    await Promise.allSettled(waiters.map(({ run }) => run));
  }

  /** Until nobody waits. Never rejects. */
  async serve(): Promise<void> {
    let hasFailed = false;
    const looks = (this.#looks = new Looks(notifierOf(this.#store), this.#root, GAP_MS));
    try {
      while (this.#waiters.length > 0) {
        try {
          await this.#serveOnce();
          hasFailed = false;
        } catch (error) {
          // Once, not with each look.
          if (!hasFailed) this.#options.logger.warn("a line of runs could not be looked at; trying again", { error });
          hasFailed = true;
        }
        await looks.next(this.#isNext ? GAP_MS : LOOK_MS);
      }
    } finally {
      this.#looks = undefined;
      this.#wantsPlace = false;
      looks.end();
    }
  }

  async #serveOnce(): Promise<void> {
    const query = { sessionId: this.#root, states: ["queued", "running", "waiting"] as const };
    const all = this.#store.runs({ ...query, limit: Number.MAX_SAFE_INTEGER });
    const [stored, instructions] = await Promise.all([all, this.#instructions()]);
    this.#isNext = this.#wantsPlace = false;
    const open = stored.map(asItIs).filter(isOpen);
    const queued = open.filter(({ state }) => state === "queued").sort((a, b) => (isBefore(a, b) ? -1 : 1));
    const under = open.length - queued.length;
    for (const waiter of [...this.#waiters]) {
      const { id } = waiter.record;
      const at = queued.findIndex((run) => run.id === id);
      if (instructions?.some(({ kind, runId }) => kind === "cancel" && runId === id))
        waiter.cancel(new RunCancelledError());
      else if (waiter.isBeginning) this.#isNext = true;
      else if (!instructions) waiter.cancel(new SessionNotFoundError(this.#root));
      else if (at >= 0) {
        await waiter.renew();
        waiter.tell(under + at);
        if (under + at > 0) continue;
        this.#wantsPlace = this.#options.places.full;
        this.#isNext = !this.#wantsPlace;
        if (this.#isNext) waiter.begin();
      } else await waiter.restore();
    }
  }

  /** Undefined when the session is gone. */
  async #instructions(): Promise<Instruction[] | undefined> {
    try {
      return await this.#store.instructions(this.#root);
    } catch (error) {
      if (hasCode(error, "session_not_found")) return undefined;
      throw error;
    }
  }
}
