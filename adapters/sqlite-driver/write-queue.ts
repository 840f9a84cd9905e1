import { closeSync, fdatasync, openSync, realpathSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Database, Transaction } from "better-sqlite3";
import { StoreError } from "gantry";
import { isBusy, sqliteErrorCode } from "./errors.js";

/** Maximum time to wait for other processes. */
const MAX_WAIT_MS = 60_000;
const MAX_BATCH_JOBS = 64;
/** Maximum random delay of the first retry. Doubles with each retry. */
const INITIAL_RETRY_DELAY_MS = 4;
const MAX_RETRY_DELAY_MS = 80;

interface Job {
  run: () => unknown;
  needsSync: boolean;
  enqueuedAtMs: number;
  resolve: (value: never) => void;
  reject: (error: unknown) => void;
}

type Outcome = { value: unknown } | { error: unknown };

/**
 * Repeats `operation` while another process blocks the file. Rejects with `StoreError` if the file is still blocked
 * `MAX_WAIT_MS` after `startedAtMs`. The event loop is free between attempts.
 */
export async function retryWhileBusy<T>(operation: () => T, startedAtMs = Date.now()): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return operation();
    } catch (error) {
      if (!isBusy(error)) throw error;
      if (Date.now() - startedAtMs > MAX_WAIT_MS) throw createTimeoutError(error);
      await backOff(attempt);
    }
  }
}

/**
 * Queue of all writes of a driver, in order of arrival. Changes that arrive in one turn of the event loop share a
 * transaction. Each change is still atomic and gets its own error. Disk syncs do not block the event loop; changes
 * during a sync share the next sync.
 */
export class WriteQueue {
  readonly #db: Database;
  readonly #logSync: LogSync | undefined;
  readonly #jobs: Job[] = [];
  readonly #batchTransaction: Transaction<(jobs: readonly Job[]) => readonly Outcome[]>;
  readonly #jobTransaction: Transaction<(job: Job) => unknown>;
  #isPumping = false;

  /** `logSync`: undefined if a commit alone gives the required durability. */
  constructor(db: Database, logSync: LogSync | undefined) {
    this.#db = db;
    this.#logSync = logSync;
    // Created once, because better-sqlite3 creates four functions for each transaction.
    this.#batchTransaction = db.transaction((jobs: readonly Job[]) => this.#runJobs(jobs));
    this.#jobTransaction = db.transaction((job: Job) => job.run());
  }

  /**
   * Calls `run` inside a transaction that holds the write lock. After a rollback `run` is called again with the state
   * before the first call. Resolves after the commit, with `needsSync` after the sync to disk.
   */
  add<T>(needsSync: boolean, run: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#jobs.push({ run, needsSync, enqueuedAtMs: Date.now(), resolve, reject });
      // Never rejects: each job gets its own error.
      if (!this.#isPumping) void this.#pump();
    });
  }

  /** Resolves when all completed changes are on disk. */
  async waitUntilSynced(): Promise<void> {
    await this.#logSync?.waitUntilSynced();
  }

  async #pump(): Promise<void> {
    this.#isPumping = true;
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#jobs.length > 0) {
      await this.#runBatch(this.#jobs.splice(0, MAX_BATCH_JOBS));
      // Yields to other work of the process between two batches.
      if (this.#jobs.length > 0) await new Promise((resolve) => setImmediate(resolve));
    }
    // Set in the same turn as the last check of `#jobs`, so that every added job finds a running pump or starts one.
    this.#isPumping = false;
  }

  async #runBatch(jobs: readonly Job[]): Promise<void> {
    const firstJob = jobs[0];
    if (!firstJob) return;
    let outcomes: readonly Outcome[];
    try {
      outcomes = await retryWhileBusy(() => this.#batchTransaction.immediate(jobs), firstJob.enqueuedAtMs);
    } catch (error) {
      if (jobs.length === 1) {
        firstJob.reject(error);
        return;
      }
      // One job made the complete transaction fail. In a transaction of its own, each job gets its own result.
      for (const job of jobs) await this.#runBatch([job]);
      return;
    }
    this.#logSync?.recordCommit();
    jobs.forEach((job, index) => {
      const outcome = outcomes[index];
      if (!outcome || "error" in outcome) job.reject(outcome?.error);
      else if (job.needsSync) this.waitUntilSynced().then(() => job.resolve(outcome.value as never), job.reject);
      else job.resolve(outcome.value as never);
    });
  }

  /** Runs the jobs in one transaction. Throws if the complete transaction is rolled back. */
  #runJobs(jobs: readonly Job[]): readonly Outcome[] {
    const isSingle = jobs.length === 1;
    return jobs.map((job): Outcome => {
      if (isSingle) return { value: job.run() };
      try {
        return { value: this.#jobTransaction(job) };
      } catch (error) {
        // An error of SQLite, such as a full disk, can end the outer transaction, or leave it in an unknown state.
        if (!this.#db.inTransaction || sqliteErrorCode(error) !== "") throw error;
        return { error };
      }
    });
  }
}

async function backOff(attempt: number): Promise<void> {
  const maxDelayMs = Math.min(MAX_RETRY_DELAY_MS, INITIAL_RETRY_DELAY_MS * 2 ** attempt);
  await sleep(1 + Math.random() * maxDelayMs);
}

function createTimeoutError(cause: unknown): StoreError {
  return new StoreError(
    `session store: another process has been writing for ${MAX_WAIT_MS / 1000} s without a pause; check for a stuck process`,
    { cause },
  );
}

/**
 * Syncs the write-ahead log to disk without blocking the event loop, unlike a commit with `synchronous = FULL`. This
 * sync is equally safe: a completed commit has written its frames to the log in order, and a checkpoint syncs the log
 * before it moves frames into the database.
 */
export class LogSync {
  readonly #path: string;
  #file: number | undefined;
  /** Whether the log grew since the last sync started. */
  #hasUnsyncedCommits = false;
  #activeSync: Promise<void> | undefined;
  #nextSync: Promise<void> | undefined;

  /** `path`: the database file, which must be open. */
  constructor(path: string) {
    this.#path = path;
  }

  /** Marks the log as unsynced after a commit of this process. */
  recordCommit(): void {
    this.#hasUnsyncedCommits = true;
  }

  /**
   * Resolves when all earlier commits are on disk. Rejects if the sync fails. One sync runs at a time; callers during a
   * sync share the next sync.
   */
  waitUntilSynced(): Promise<void> {
    if (!this.#hasUnsyncedCommits) return this.#activeSync ?? Promise.resolve();
    if (!this.#activeSync) return this.#startSync();
    return (this.#nextSync ??= this.#activeSync
      .catch(() => undefined)
      .then(() => {
        this.#nextSync = undefined;
        return this.#startSync();
      }));
  }

  /** Call when no sync is active. */
  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  #startSync(): Promise<void> {
    this.#hasUnsyncedCommits = false;
    return (this.#activeSync = this.#sync().finally(() => (this.#activeSync = undefined)));
  }

  async #sync(): Promise<void> {
    try {
      // If `#path` is a symbolic link, the log is next to its target. Windows syncs only files opened for writing.
      const file = (this.#file ??= openSync(`${realpathSync(this.#path)}-wal`, "r+"));
      await new Promise<void>((resolve, reject) => fdatasync(file, (error) => (error ? reject(error) : resolve())));
    } catch (error) {
      this.#hasUnsyncedCommits = true;
      throw error;
    }
  }
}
