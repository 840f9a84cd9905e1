import { onAbort } from "../../base/abort.js";
import { hasCode } from "../../ports/errors.js";
import type { Logger } from "../../ports/logger.js";
import type { RunInput, RunRecord } from "../../ports/run.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import { currentHolder } from "../../sessions/holder.js";
import { LEASE_TTL_MS } from "../../sessions/lease.js";
import { asRunError, failedRecord } from "../../sessions/run-record.js";
import { notifierOf } from "../../sessions/polling-notifier.js";

/**
 * Interval for renewing the queue lease of a queued run, in ms. Without renewal other processes skip the run after the
 * lease expires.
 */
const RENEW_MS = 10_000;
const QUEUE_LEASE_MS = LEASE_TTL_MS;

/** The queue's data for a run that starts. */
export interface QueueTurn {
  /** The stored record of the run. */
  readonly record: RunRecord;
  /** Aborted when the run is cancelled. */
  readonly signal: AbortSignal;
  /**
   * Call this under the chain's lease, before the run is stored as started. Afterwards the queue no longer writes the
   * record.
   */
  readonly takeOver: () => Promise<void>;
}

/** A run in the queue. */
export class QueuedRun<Run> {
  readonly record: RunRecord;
  /** Resolves with the started run. Rejects if the run leaves the queue before it starts. */
  readonly run: Promise<Run>;
  isBeginning = false;
  readonly #driver: SessionDriver;
  readonly #input: RunInput;
  readonly #begin: (turn: QueueTurn) => Promise<Run>;
  readonly #logger: Logger;
  readonly #cancel = new AbortController();
  #untie = (): void => undefined;
  #resolve: (run: Run) => void = () => undefined;
  #reject: (error: Error) => void = () => undefined;
  /** The last write of the record. */
  #lastWrite: Promise<unknown> = Promise.resolve();
  #leaseRenewedAtMs = 0;
  /** Whether the starting run now writes the record. */
  #isTakenOver = false;
  #isOver = false;
  #reportedRunsAhead = -1;

  constructor(
    driver: SessionDriver,
    record: RunRecord,
    input: RunInput,
    begin: (turn: QueueTurn) => Promise<Run>,
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
    // The promise may reject before a caller waits for it.
    this.run.catch(() => undefined);
  }

  /** Stores the run before anything can end it. Rejects like `SessionDriver.write`. */
  async enter(): Promise<void> {
    await this.store(true);
    const { signal } = this.#input;
    if (signal) this.#untie = onAbort(signal, () => this.cancel(signal.reason));
  }

  /** Stores the queued state and renews the queue lease. Rejects like `SessionDriver.write`. */
  async store(sync: boolean): Promise<void> {
    if (this.#isTakenOver || this.#isOver) return;
    this.#leaseRenewedAtMs = Date.now();
    this.record.queueLease ??= { holder: currentHolder(this.record.id), expiresAt: "" };
    this.record.queueLease.expiresAt = new Date(Date.now() + QUEUE_LEASE_MS).toISOString();
    await this.#write(sync);
  }

  /**
   * Stores the run again after another process took this process for dead, for example after a suspend. If another run
   * has its key now, the run is cancelled.
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

  async renew(): Promise<void> {
    if (Date.now() - this.#leaseRenewedAtMs > RENEW_MS) await this.store(false);
  }

  reportPosition(ahead: number): void {
    if (ahead === this.#reportedRunsAhead || this.#isOver) return;
    this.#reportedRunsAhead = ahead;
    try {
      this.#input.onQueued?.(ahead, structuredClone(this.record));
    } catch (error) {
      this.#logger.error("onQueued callback failed", { error });
    }
  }

  /** Starts the run when it is next. */
  begin(): void {
    if (this.#isOver) return;
    this.isBeginning = true;
    const held = async () => {
      this.#isTakenOver = true;
      await this.#lastWrite;
    };
    const turn: QueueTurn = { record: this.record, signal: this.#cancel.signal, takeOver: held };
    const begun = (run: Run): void => {
      this.#isOver = true;
      this.#untie();
      this.#resolve(run);
    };
    const refused = async (error: unknown): Promise<void> => {
      this.#isTakenOver = false;
      this.isBeginning = false;
      // The previous holder has not released the lease yet, or a run that was not queued started first. The run stays
      // queued.
      if (!hasCode(error, "session_busy") || this.#cancel.signal.aborted) await this.#finish(error);
    };
    void this.#begin(turn).then(begun, refused);
  }

  /** Ends the waiting. A run that has already started is cancelled. */
  cancel(reason: unknown): void {
    this.#cancel.abort(reason);
    if (!this.isBeginning) void this.#finish(reason);
  }

  /** Like `cancel`, and rejects with the reason. */
  end(reason: Error): Promise<Run> {
    this.cancel(reason);
    return this.run;
  }

  async #finish(error: unknown): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#untie();
    const why = asRunError(error, this.#cancel.signal);
    Object.assign(this.record, failedRecord(why));
    await this.#write(false).catch((unstored: unknown) =>
      this.#logger.debug("end of queued run was not stored", { error: unstored }),
    );
    this.#reject(why);
  }

  /** Writes one after the other, so that the newest state is stored last. */
  async #write(sync: boolean): Promise<void> {
    const { sessionId } = this.record;
    const write = async () => {
      await this.#driver.write(sessionId, { fence: null, sync, runs: [structuredClone(this.record)] });
      notifierOf(this.#driver).publish(sessionId);
    };
    const written = this.#lastWrite.then(write);
    this.#lastWrite = written.catch(() => undefined);
    await written;
  }
}
