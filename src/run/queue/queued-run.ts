import { onAbort } from "../../base/abort.js";
import { monotonicMs, nowMs } from "../../base/clock.js";
import { hasCode } from "../../ports/errors.js";
import type { Logger } from "../../ports/logger.js";
import type { RunInput, RunRecord } from "../../ports/run.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import { currentHolder } from "../../sessions/holder.js";
import { LEASE_TTL_MS } from "../../sessions/lease.js";
import { toRunError, createFailedFields, selectEndTime } from "../../sessions/run-record.js";
import { notifierOf } from "../../sessions/polling-notifier.js";

/**
 * Interval for renewing the queue lease of a queued run, in ms. Without renewal other processes skip the run after the
 * lease expires.
 */
const RENEW_INTERVAL_MS = 10_000;
const QUEUE_LEASE_TTL_MS = LEASE_TTL_MS;

/** Passed to a run that starts from the queue. */
export interface QueueHandover {
  readonly record: RunRecord;
  readonly signal: AbortSignal;
  /**
   * Call this under the chain's lease, before the run is stored as started. Afterwards the queue no longer writes the
   * record.
   */
  readonly takeOver: () => Promise<void>;
}

export class QueuedRun<Run> {
  readonly record: RunRecord;
  /** Resolves with the started run. Rejects if the run leaves the queue before it starts. */
  readonly startedRun: Promise<Run>;
  isStarting = false;
  readonly #driver: SessionDriver;
  readonly #input: RunInput;
  readonly #startRun: (handover: QueueHandover) => Promise<Run>;
  readonly #logger: Logger;
  readonly #cancel = new AbortController();
  #removeAbortListener = (): void => undefined;
  #resolve: (run: Run) => void = () => undefined;
  #reject: (error: Error) => void = () => undefined;
  #lastWrite: Promise<unknown> = Promise.resolve();
  #leaseRenewedAtMs = 0;
  /** Whether the starting run now writes the record. */
  #isTakenOver = false;
  #hasLeftQueue = false;
  /** The position that `onQueued` received last; -1 before the first call. */
  #reportedRunsAhead = -1;

  constructor(
    driver: SessionDriver,
    record: RunRecord,
    input: RunInput,
    startRun: (handover: QueueHandover) => Promise<Run>,
    logger: Logger,
  ) {
    this.#driver = driver;
    this.record = record;
    this.#input = input;
    this.#startRun = startRun;
    this.#logger = logger;
    this.startedRun = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // The promise may reject before a caller waits for it.
    this.startedRun.catch(() => undefined);
  }

  /** Stores the run, then listens to its caller's signal. Rejects like `SessionDriver.write`. */
  async enter(): Promise<void> {
    await this.store(true);
    const { signal } = this.#input;
    if (signal) this.#removeAbortListener = onAbort(signal, () => this.cancel(signal.reason));
  }

  /**
   * Stores the queued state and renews the queue lease. `sync` as in `SessionChange`. Rejects like
   * `SessionDriver.write`.
   */
  async store(sync: boolean): Promise<void> {
    if (this.#isTakenOver || this.#hasLeftQueue) return;
    this.#leaseRenewedAtMs = monotonicMs();
    this.record.queueLease ??= { holder: currentHolder(this.record.id), expiresAt: "" };
    this.record.queueLease.expiresAt = new Date(nowMs(this.#driver) + QUEUE_LEASE_TTL_MS).toISOString();
    await this.#write(sync);
  }

  /**
   * Stores the run again after another process took this process for dead, for example after a suspend. If another run
   * now has this run's key, this run is cancelled.
   */
  async restore(): Promise<void> {
    try {
      await this.store(false);
    } catch (error) {
      if (!hasCode(error, "run_key_taken")) throw error;
      this.record.idempotencyKey = "";
      this.cancel(error);
    }
  }

  /** Renews the queue lease if it is older than `RENEW_INTERVAL_MS`. Rejects like `SessionDriver.write`. */
  async renewLease(): Promise<void> {
    if (monotonicMs() - this.#leaseRenewedAtMs > RENEW_INTERVAL_MS) await this.store(false);
  }

  reportPosition(runsAhead: number): void {
    if (runsAhead === this.#reportedRunsAhead || this.#hasLeftQueue) return;
    this.#reportedRunsAhead = runsAhead;
    try {
      this.#input.onQueued?.(runsAhead, structuredClone(this.record));
    } catch (error) {
      this.#logger.error("onQueued callback failed", { error });
    }
  }

  start(): void {
    if (this.#hasLeftQueue) return;
    this.isStarting = true;
    const takeOver = async () => {
      this.#isTakenOver = true;
      await this.#lastWrite;
    };
    const handover: QueueHandover = { record: this.record, signal: this.#cancel.signal, takeOver };
    const onStarted = (run: Run): void => {
      this.#hasLeftQueue = true;
      this.#removeAbortListener();
      this.#resolve(run);
    };
    const onFailed = async (error: unknown): Promise<void> => {
      this.#isTakenOver = false;
      this.isStarting = false;
      // The previous holder has not released the lease yet, or a run that was not queued started first. The run stays
      // queued.
      if (!hasCode(error, "session_busy") || this.#cancel.signal.aborted) await this.#finish(error);
    };
    void this.#startRun(handover).then(onStarted, onFailed);
  }

  /** Ends the waiting. A run that has already started is cancelled. */
  cancel(reason: unknown): void {
    this.#cancel.abort(reason);
    if (!this.isStarting) void this.#finish(reason);
  }

  async #finish(error: unknown): Promise<void> {
    if (this.#hasLeftQueue) return;
    this.#hasLeftQueue = true;
    this.#removeAbortListener();
    const runError = toRunError(error, this.#cancel.signal);
    Object.assign(this.record, createFailedFields(runError, selectEndTime(this.record, this.#driver)));
    await this.#write(false).catch((writeError: unknown) =>
      this.#logger.debug("end of queued run was not stored", { error: writeError }),
    );
    this.#reject(runError);
  }

  /** Writes the record after the previous write, so that the newest state is stored last. */
  async #write(sync: boolean): Promise<void> {
    const { sessionId } = this.record;
    const write = async () => {
      await this.#driver.write(sessionId, { fence: null, sync, runs: [structuredClone(this.record)] });
      notifierOf(this.#driver).publish(sessionId);
    };
    const writePromise = this.#lastWrite.then(write);
    this.#lastWrite = writePromise.catch(() => undefined);
    await writePromise;
  }
}
