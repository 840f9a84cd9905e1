import { createLoggerWithFields } from "../../base/log.js";
import type { TaskSet } from "../../base/task-set.js";
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
import { createRunRecord } from "../../sessions/run-record.js";
import { withEffectiveState, isBefore, isOpen } from "../../sessions/stored-run.js";
import type { RunLimiter } from "../budget/limits.js";
import { QueuedRun, type QueueHandover } from "./queued-run.js";
import { notifierOf } from "../../sessions/polling-notifier.js";

/** Poll interval of a queue in ms. Dead processes send no notifications. */
const POLL_INTERVAL_MS = 1_000;
/**
 * Minimum interval between polls after notifications, in ms. Also the retry delay of a run that is next but could not
 * start, because no notification reports a free lease.
 */
const MIN_POLL_INTERVAL_MS = 250;
/** Maximum queued runs of one process for one session, so that runs of other sessions can be queued too. */
const MAX_QUEUED_RUNS_PER_SESSION = 100;

/** Time and id of a request, which determine its position in the queue. */
export interface QueueTicket {
  readonly id: string;
  /** Milliseconds since 1970 by the clock of this process. */
  readonly requestedAtMs: number;
}

/** The agent's members that the queue uses. */
export interface RunQueueOptions {
  store: () => Promise<SessionDriver>;
  limiter: RunLimiter;
  tasks: TaskSet;
  logger: Logger;
}

/**
 * Runs that wait for their session. Each run is stored as `queued`, so that all processes of a store see the same
 * queue. Runs start in the order of their requests; runs of dead processes are skipped.
 */
export class RunQueue<Run> {
  readonly #options: RunQueueOptions;
  readonly #queuesBySessionId = new Map<string, SessionQueue<Run>>();
  #isClosed = false;

  constructor(options: RunQueueOptions) {
    this.#options = options;
  }

  /**
   * Queues a run and calls `startRun` when it is next. If `startRun` finds the session busy, the run stays queued.
   * Rejects like `startRun`, or with `TooManyRunsError`, `ShuttingDownError`, `SessionNotFoundError`,
   * `RunKeyTakenError`, `StoreError` or `RunCancelledError`. The stored record then contains the error.
   */
  async enqueue(
    input: RunInput,
    { id, requestedAtMs }: QueueTicket,
    startRun: (handover: QueueHandover) => Promise<Run>,
  ): Promise<Run> {
    const releaseQueued = this.#options.limiter.reserveQueuedRun();
    try {
      const store = await this.#options.store();
      const { chain, lastSeq, provider, model } = await requireSession(store, input.sessionId ?? "");
      const rootId = chain.root;
      const queue = this.#queuesBySessionId.get(rootId) ?? new SessionQueue(rootId, store, this.#options);
      if (queue.count >= MAX_QUEUED_RUNS_PER_SESSION)
        throw new TooManyRunsError(undefined, "too many runs wait for this session");
      this.#queuesBySessionId.set(rootId, queue);
      queue.count += 1;
      try {
        // Requests of one process keep their order.
        const startedAt = new Date(requestedAtMs + (store.clockOffsetMs ?? 0)).toISOString();
        const newRecord = createRunRecord({
          id,
          sessionId: rootId,
          provider: input.provider ?? provider,
          model: input.model ?? model,
          after: lastSeq,
          idempotencyKey: input.idempotencyKey ?? "",
          fingerprint: input.fingerprint ?? "",
          ...(input.user !== undefined && { user: input.user }),
          startedAt,
        });
        const record: RunRecord = { ...newRecord, state: "queued" };
        const fields = { run: record.id, session: rootId, client: input.clientName, ...input.logFields };
        const logger = createLoggerWithFields(this.#options.logger, () => fields);
        const queuedRun = new QueuedRun(store, record, input, startRun, logger);
        await queuedRun.enter();
        if (this.#isClosed) queuedRun.cancel(new ShuttingDownError());
        else queue.add(queuedRun);
        return await queuedRun.startedRun;
      } finally {
        queue.count -= 1;
        if (queue.count === 0) this.#queuesBySessionId.delete(rootId);
      }
    } finally {
      releaseQueued();
    }
  }

  /** Whether runs of this process wait for a chain. */
  has(rootId: string): boolean {
    return this.#queuesBySessionId.has(rootId);
  }

  /** Polls the queue of a chain after a run has ended in this process. */
  poll(rootId: string): void {
    this.#queuesBySessionId.get(rootId)?.poll();
    // A slot is free, so poll one other queue that needs a slot.
    for (const queue of this.#queuesBySessionId.values())
      if (queue.needsSlot) {
        queue.poll();
        break;
      }
  }

  /** Settles when a run of this process leaves the queue. Undefined if the run is not queued here. Never rejects. */
  waitUntilDequeued(rootId: string, runId: string): Promise<unknown> | undefined {
    return this.#queuesBySessionId
      .get(rootId)
      ?.find(runId)
      ?.startedRun.catch(() => undefined);
  }

  /** Cancels a queued run of this process, and waits until it has left the queue. Never rejects. */
  async cancel(rootId: string, runId: string): Promise<void> {
    this.#queuesBySessionId.get(rootId)?.find(runId)?.cancel(new RunCancelledError());
    await this.waitUntilDequeued(rootId, runId);
  }

  /** Cancels all queued runs of a chain in this process. Never rejects. */
  async cancelAll(rootId: string, reason: Error): Promise<void> {
    await this.#queuesBySessionId.get(rootId)?.cancelAll(reason);
  }

  close(): void {
    this.#isClosed = true;
    for (const queue of this.#queuesBySessionId.values()) void queue.cancelAll(new ShuttingDownError());
  }
}

class SessionQueue<Run> {
  readonly #rootId: string;
  readonly #store: SessionDriver;
  readonly #options: RunQueueOptions;
  /** Number of queued runs. A run counts before it is stored. */
  count = 0;
  #queuedRuns: QueuedRun<Run>[] = [];
  #schedule: PollSchedule | undefined;
  /** Whether one of these runs is next. The start of this run may still fail. */
  #isNext = false;
  #needsSlot = false;

  constructor(rootId: string, store: SessionDriver, options: RunQueueOptions) {
    this.#rootId = rootId;
    this.#store = store;
    this.#options = options;
  }

  /** Whether one of these runs is next but no slot is free. */
  get needsSlot(): boolean {
    return this.#needsSlot;
  }

  /** Adds a run, and polls until no run is queued. */
  add(queuedRun: QueuedRun<Run>): void {
    this.#queuedRuns.push(queuedRun);
    const removeRun = () => {
      this.#queuedRuns = this.#queuedRuns.filter((otherRun) => otherRun !== queuedRun);
      this.poll();
    };
    queuedRun.startedRun.then(removeRun, removeRun);
    if (this.#schedule) this.poll();
    else void this.#options.tasks.add(this.#serve());
  }

  find(runId: string): QueuedRun<Run> | undefined {
    return this.#queuedRuns.find(({ record }) => record.id === runId);
  }

  poll(): void {
    this.#schedule?.wakeNow();
  }

  async cancelAll(reason: Error): Promise<void> {
    const runs = [...this.#queuedRuns];
    for (const queuedRun of runs) queuedRun.cancel(reason);
    await Promise.allSettled(runs.map(({ startedRun }) => startedRun));
  }

  /** Polls until no run is queued. Never rejects. */
  async #serve(): Promise<void> {
    let hasFailed = false;
    const schedule = (this.#schedule = new PollSchedule(notifierOf(this.#store), this.#rootId, MIN_POLL_INTERVAL_MS));
    try {
      while (this.#queuedRuns.length > 0) {
        try {
          await this.#serveOnce();
          hasFailed = false;
        } catch (error) {
          // Logged once, not at each poll.
          if (!hasFailed) this.#options.logger.warn("the run queue could not be read; retrying", { error });
          hasFailed = true;
        }
        await schedule.next(this.#isNext ? MIN_POLL_INTERVAL_MS : POLL_INTERVAL_MS);
      }
    } finally {
      this.#schedule = undefined;
      this.#needsSlot = false;
      schedule.end();
    }
  }

  async #serveOnce(): Promise<void> {
    const query = { sessionId: this.#rootId, states: ["queued", "running", "waiting"] as const };
    const openRunsQuery = this.#store.runs({ ...query, limit: Number.MAX_SAFE_INTEGER });
    const [storedRuns, instructions] = await Promise.all([openRunsQuery, this.#readInstructions()]);
    this.#isNext = this.#needsSlot = false;
    const openRuns = storedRuns.map((storedRun) => withEffectiveState(storedRun, this.#store)).filter(isOpen);
    const queuedRuns = openRuns.filter(({ state }) => state === "queued").sort((a, b) => (isBefore(a, b) ? -1 : 1));
    const activeCount = openRuns.length - queuedRuns.length;
    for (const queuedRun of [...this.#queuedRuns]) {
      const { id } = queuedRun.record;
      const position = queuedRuns.findIndex((run) => run.id === id);
      if (instructions?.some(({ kind, runId }) => kind === "cancel" && runId === id))
        queuedRun.cancel(new RunCancelledError());
      else if (queuedRun.isStarting) this.#isNext = true;
      else if (!instructions) queuedRun.cancel(new SessionNotFoundError(this.#rootId));
      else if (position >= 0) {
        await queuedRun.renewLease();
        queuedRun.reportPosition(activeCount + position);
        if (activeCount + position > 0) continue;
        this.#needsSlot = this.#options.limiter.isFull;
        this.#isNext = !this.#needsSlot;
        if (this.#isNext) queuedRun.start();
      } else await queuedRun.restore();
    }
  }

  /** Reads the chain's instructions; undefined if the session was deleted. */
  async #readInstructions(): Promise<Instruction[] | undefined> {
    try {
      return await this.#store.instructions(this.#rootId);
    } catch (error) {
      if (hasCode(error, "session_not_found")) return undefined;
      throw error;
    }
  }
}
