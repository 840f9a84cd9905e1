import { setTimeout as sleep } from "node:timers/promises";
import type { Database, Transaction } from "better-sqlite3";
import { StoreError } from "gantry";
import { isBusy, sqliteCode } from "./errors.js";
import type { LogSync } from "./log-sync.js";

/** Maximum time to wait for other processes, in ms. */
const MAX_WAIT_MS = 60_000;
/** Maximum number of changes in one transaction. */
const BATCH_SIZE = 64;

interface Job {
  run: () => unknown;
  sync: boolean;
  since: number;
  resolve: (value: never) => void;
  reject: (error: unknown) => void;
}

type Outcome = { value: unknown } | { error: unknown };

/** Repeats `step` while another process blocks it. The event loop is free between attempts. */
export async function retryWhileBusy<T>(step: () => T, since = Date.now()): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return step();
    } catch (error) {
      if (!isBusy(error)) throw error;
      if (Date.now() - since > MAX_WAIT_MS) throw timeoutError(error);
      await backOff(attempt);
    }
  }
}

/**
 * All writes of a driver, in order of arrival. Changes that arrive in one turn of the event loop share a transaction.
 * Each change is still atomic and gets its own error. Disk syncs do not block the event loop; changes during a sync
 * share the next sync.
 */
export class WriteQueue {
  readonly #db: Database;
  readonly #disk: LogSync | undefined;
  readonly #jobs: Job[] = [];
  readonly #batch: Transaction<(jobs: readonly Job[]) => readonly Outcome[]>;
  readonly #single: Transaction<(job: Job) => unknown>;
  #pumping = false;

  /** `disk`: undefined if a commit alone gives the required durability. */
  constructor(db: Database, disk: LogSync | undefined) {
    this.#db = db;
    this.#disk = disk;
    // Created once, because better-sqlite3 creates four functions for each.
    this.#batch = db.transaction((jobs: readonly Job[]) => this.#outcomes(jobs));
    this.#single = db.transaction((job: Job) => job.run());
  }

  /**
   * Runs `run` inside a transaction that holds the write lock. It may run more than once, each time from a clean state.
   */
  add<T>(sync: boolean, run: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#jobs.push({ run, sync, since: Date.now(), resolve, reject });
      // Never rejects: each job gets its own error.
      if (!this.#pumping) void this.#pump();
    });
  }

  /** Resolves when all completed changes are on disk. */
  async synced(): Promise<void> {
    await this.#disk?.synced();
  }

  async #pump(): Promise<void> {
    this.#pumping = true;
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#jobs.length > 0) {
      await this.#group(this.#jobs.splice(0, BATCH_SIZE));
      // Yields to other work of the process between two batches.
      if (this.#jobs.length > 0) await new Promise((resolve) => setImmediate(resolve));
    }
    // Set in the same turn as the last check of the list, so that no job is added to a pump that has ended.
    this.#pumping = false;
  }

  async #group(jobs: readonly Job[]): Promise<void> {
    const first = jobs[0];
    if (!first) return;
    let outcomes: readonly Outcome[];
    try {
      outcomes = await retryWhileBusy(() => this.#batch.immediate(jobs), first.since);
    } catch (error) {
      if (jobs.length === 1) {
        first.reject(error);
        return;
      }
      // One job failed the complete transaction; alone, each job gets its own result.
      for (const job of jobs) await this.#group([job]);
      return;
    }
    this.#disk?.committed();
    jobs.forEach((job, at) => {
      const outcome = outcomes[at];
      if (!outcome || "error" in outcome) job.reject(outcome?.error);
      else if (job.sync) this.synced().then(() => job.resolve(outcome.value as never), job.reject);
      else job.resolve(outcome.value as never);
    });
  }

  /** Runs the jobs in one transaction. Throws if the complete transaction is rolled back. */
  #outcomes(jobs: readonly Job[]): readonly Outcome[] {
    const alone = jobs.length === 1;
    return jobs.map((job): Outcome => {
      if (alone) return { value: job.run() };
      try {
        return { value: this.#single(job) };
      } catch (error) {
        // A full or failing disk ends the outer transaction too.
        if (!this.#db.inTransaction || sqliteCode(error) !== "") throw error;
        return { error };
      }
    });
  }
}

async function backOff(attempt: number): Promise<void> {
  const maxDelayMs = Math.min(80, 4 * 2 ** Math.min(attempt, 5));
  await sleep(1 + Math.random() * maxDelayMs);
}

function timeoutError(cause: unknown): StoreError {
  return new StoreError(
    `session store: another process has been writing for ${MAX_WAIT_MS / 1000} s without a pause; check for a stuck process`,
    { cause },
  );
}
