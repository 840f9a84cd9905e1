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
import { PollSchedule } from "../../sessions/poll-schedule.js";
import { requireSession } from "../../sessions/require-session.js";
import { withEffectiveState, isBefore, isOpen } from "../../sessions/stored-run.js";
import type { RunLimiter } from "../budget/concurrency.js";
import { QueuedRun, type QueueTurn } from "./queued-run.js";
import { notifierOf } from "../../sessions/polling-notifier.js";

/** Poll interval of a queue in ms. Dead processes send no notifications. */
const POLL_INTERVAL_MS = 1_000;
/**
 * Minimum interval between polls after notifications, in ms. Also the retry delay of a run that is next but could not
 * start, because no notification reports a free lease.
 */
const MIN_POLL_INTERVAL_MS = 250;
/** Maximum queued runs of one process for one session, so that runs of other sessions can be queued too. */
const MAX_WAITING_RUNS = 100;
/** Time and id of a request, which determine its position in the queue. */
export interface QueueTicket {
  readonly id: string;
  readonly at: string;
}

/** The agent's members that the queue uses. */
export interface RunQueueOptions {
  store: () => Promise<SessionDriver>;
  limiter: RunLimiter;
  tasks: TaskSet;
  logger: Logger;
}

/**
 * Runs that wait for their session. Each is stored as `queued`, so that all processes of a store see the same queue.
 * The order is that of the requests; runs of dead processes are skipped.
 */
export class RunQueue<Run> {
  readonly #options: RunQueueOptions;
  readonly #queuesBySessionId = new Map<string, SessionQueue<Run>>();
  /** Number of queued runs by session id. A run counts before it is stored. */
  readonly #waitingBySessionId = new Map<string, number>();
  #isClosed = false;

  constructor(options: RunQueueOptions) {
    this.#options = options;
  }

  /**
   * Queues a run and calls `begin` when it is next. If `begin` finds the session busy, the run stays queued. Rejects
   * like `begin`, or with `TooManyRunsError`, `ShuttingDownError`, `SessionNotFoundError`, `RunKeyTakenError`,
   * `StoreError` or `RunCancelledError`. The stored record then contains the error.
   */
  async wait(input: RunInput, { id, at }: QueueTicket, begin: (turn: QueueTurn) => Promise<Run>): Promise<Run> {
    const leave = this.#options.limiter.wait();
    let leaveSession = (): void => undefined;
    try {
      const store = await this.#options.store();
      const { chain, lastSeq, provider, model } = await requireSession(store, input.sessionId ?? "");
      const root = chain.root;
      leaveSession = this.#countQueued(root);
      const names = {
        id,
        sessionId: root,
        idempotencyKey: input.idempotencyKey ?? "",
        fingerprint: input.fingerprint ?? "",
        after: lastSeq,
      };
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
        queueLease: null,
        retry: null,
        answer: null,
      };
      const waiter = new QueuedRun(store, record, input, begin, this.#options.logger);
      await waiter.enter();
      if (this.#isClosed) return await waiter.end(new ShuttingDownError());
      const line = this.#queuesBySessionId.get(root) ?? new SessionQueue(root, store, this.#options);
      this.#queuesBySessionId.set(root, line);
      if (line.add(waiter)) void this.#options.tasks.add(line.serve().then(() => void this.#forget(root)));
      return await waiter.run;
    } finally {
      leaveSession();
      leave();
    }
  }

  /** Throws `TooManyRunsError`. Call the returned function when the run leaves the queue. */
  #countQueued(root: string): () => void {
    const count = this.#waitingBySessionId.get(root) ?? 0;
    if (count >= MAX_WAITING_RUNS) throw new TooManyRunsError(1000, "too many runs wait for this session");
    this.#waitingBySessionId.set(root, count + 1);
    return () => {
      const remainingRuns = (this.#waitingBySessionId.get(root) ?? 0) - 1;
      if (remainingRuns > 0) this.#waitingBySessionId.set(root, remainingRuns);
      else this.#waitingBySessionId.delete(root);
    };
  }

  #forget(rootId: string): void {
    if (this.#queuesBySessionId.get(rootId)?.isEmpty) this.#queuesBySessionId.delete(rootId);
  }

  /** Polls the queue of a chain after a run has ended in this process. */
  poll(rootId: string): void {
    this.#queuesBySessionId.get(rootId)?.poll();
    // A slot is free, so one other queue that needs a slot polls too.
    for (const line of this.#queuesBySessionId.values())
      if (line.needsSlot) {
        line.poll();
        break;
      }
  }

  /** Settles when a run of this process leaves the queue; undefined if it is not queued here. Never rejects. */
  waits(rootId: string, runId: string): Promise<unknown> | undefined {
    return this.#queuesBySessionId
      .get(rootId)
      ?.waiter(runId)
      ?.run.catch(() => undefined);
  }

  /**
   * Cancels a queued run of this process. `ended` settles when it has left the queue. Undefined if it is not queued
   * here.
   */
  cancel(rootId: string, runId: string): { ended: Promise<unknown> } | undefined {
    const waiter = this.#queuesBySessionId.get(rootId)?.waiter(runId);
    waiter?.cancel(new RunCancelledError());
    return waiter && { ended: waiter.run.catch(() => undefined) };
  }

  /** Cancels all queued runs of a chain in this process. Never rejects. */
  async drop(rootId: string, reason: Error): Promise<void> {
    await this.#queuesBySessionId.get(rootId)?.drop(reason);
  }

  /** Rejects all queued runs from now on. */
  close(): void {
    this.#isClosed = true;
    for (const line of this.#queuesBySessionId.values()) void line.drop(new ShuttingDownError());
  }
}

/** The queued runs of this process for one chain. */
class SessionQueue<Run> {
  readonly #root: string;
  readonly #store: SessionDriver;
  readonly #options: RunQueueOptions;
  #waiters: QueuedRun<Run>[] = [];
  #schedule: PollSchedule | undefined;
  /** Whether one of these runs is next. Its start may still fail. */
  #isNext = false;
  #needsSlot = false;

  constructor(root: string, store: SessionDriver, options: RunQueueOptions) {
    this.#root = root;
    this.#store = store;
    this.#options = options;
  }

  get isEmpty(): boolean {
    return this.#waiters.length === 0;
  }

  /** Whether one of these runs is next but no slot is free. */
  get needsSlot(): boolean {
    return this.#needsSlot;
  }

  /** Adds a run. Returns whether `serve` must be called. */
  add(waiter: QueuedRun<Run>): boolean {
    this.#waiters.push(waiter);
    const gone = () => {
      this.#waiters = this.#waiters.filter((queuedRun) => queuedRun !== waiter);
      this.poll();
    };
    waiter.run.then(gone, gone);
    this.poll();
    return this.#schedule === undefined;
  }

  waiter(runId: string): QueuedRun<Run> | undefined {
    return this.#waiters.find(({ record }) => record.id === runId);
  }

  poll(): void {
    this.#schedule?.now();
  }

  async drop(reason: Error): Promise<void> {
    const waiters = [...this.#waiters];
    for (const waiter of waiters) waiter.cancel(reason);
    await Promise.allSettled(waiters.map(({ run }) => run));
  }

  /** Polls until no run is queued. Never rejects. */
  async serve(): Promise<void> {
    let hasFailed = false;
    const looks = (this.#schedule = new PollSchedule(notifierOf(this.#store), this.#root, MIN_POLL_INTERVAL_MS));
    try {
      while (this.#waiters.length > 0) {
        try {
          await this.#serveOnce();
          hasFailed = false;
        } catch (error) {
          // Logged once, not at each poll.
          if (!hasFailed) this.#options.logger.warn("the run queue could not be read; retrying", { error });
          hasFailed = true;
        }
        await looks.next(this.#isNext ? MIN_POLL_INTERVAL_MS : POLL_INTERVAL_MS);
      }
    } finally {
      this.#schedule = undefined;
      this.#needsSlot = false;
      looks.end();
    }
  }

  async #serveOnce(): Promise<void> {
    const query = { sessionId: this.#root, states: ["queued", "running", "waiting"] as const };
    const all = this.#store.runs({ ...query, limit: Number.MAX_SAFE_INTEGER });
    const [stored, instructions] = await Promise.all([all, this.#instructions()]);
    this.#isNext = this.#needsSlot = false;
    const open = stored.map(withEffectiveState).filter(isOpen);
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
        waiter.reportPosition(under + at);
        if (under + at > 0) continue;
        this.#needsSlot = this.#options.limiter.full;
        this.#isNext = !this.#needsSlot;
        if (this.#isNext) waiter.begin();
      } else await waiter.restore();
    }
  }

  /** Undefined if the session was deleted. */
  async #instructions(): Promise<Instruction[] | undefined> {
    try {
      return await this.#store.instructions(this.#root);
    } catch (error) {
      if (hasCode(error, "session_not_found")) return undefined;
      throw error;
    }
  }
}
