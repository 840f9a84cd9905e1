import { closeSync, fdatasync, openSync, realpathSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { Database, Transaction } from "better-sqlite3";
import { StoreError } from "gantry";
import { monotonicMs } from "gantry/plugin";
import { isBusy, isFull, sqliteErrorCode } from "./errors.js";
import { describeHolder, findLockHolder } from "./lock-holder.js";

/** Maximum time to wait for other processes, in ms. */
const MAX_WAIT_MS = 10_000;
/** Maximum wait of a change that belongs to a run: without it, the run ends. */
const MAX_PATIENT_WAIT_MS = 60_000;
const MAX_BATCH_JOBS = 64;
/** Maximum random delay of the first retry. Doubles with each retry. */
const INITIAL_RETRY_DELAY_MS = 4;
const MAX_RETRY_DELAY_MS = 80;

interface Job {
  run: () => unknown;
  needsSync: boolean;
  usesReserve: boolean;
  /** Time on the monotonic clock until which the job waits for other processes. */
  deadlineMs: number;
  resolve: (value: never) => void;
  reject: (error: unknown) => void;
}

type Outcome = { value: unknown } | { error: unknown };

/**
 * Repeats `operation` while another process blocks the file. Rejects with `StoreError` if the file is blocked for
 * `maxWaitMs`. The event loop is free between attempts. `path`: the file, to find that process.
 */
export async function retryWhileBusy<T>(operation: () => T, path = "", maxWaitMs = MAX_WAIT_MS): Promise<T> {
  const deadlineMs = monotonicMs() + maxWaitMs;
  for (let attempt = 0; ; attempt++) {
    try {
      return operation();
    } catch (error) {
      if (!isBusy(error)) throw error;
      if (monotonicMs() > deadlineMs) throw createLockedError(path, error);
      await backOff(attempt);
    }
  }
}

/** How a change is made. */
export interface ChangeOptions {
  /** Whether the change resolves after the sync to disk. */
  readonly needsSync: boolean;
  /** Whether the change waits for a long time if another process blocks the file. */
  readonly isPatient?: boolean;
  /** Whether the change may use the space that is reserved for deletes on a full disk. */
  readonly usesReserve?: boolean;
}

/**
 * Queue of all writes of a driver, in order of arrival. Changes that arrive in one turn of the event loop share a
 * transaction. Each change is still atomic and gets its own error. Disk syncs do not block the event loop; changes
 * during a sync share the next sync.
 */
export class WriteQueue {
  readonly #db: Database;
  readonly #logSync: LogSync | undefined;
  readonly #path: string;
  readonly #freeSpace: (options: { usesReserve: boolean }) => void;
  #jobs: Job[] = [];
  readonly #batchTransaction: Transaction<(jobs: readonly Job[]) => readonly Outcome[]>;
  readonly #jobTransaction: Transaction<(job: Job) => unknown>;
  #isPumping = false;

  /**
   * Parameters:
   * - `path`: the database file.
   * - `logSync`: undefined if a commit alone gives the required durability.
   * - `freeSpace`: called when the disk is full, before the change is repeated once.
   */
  constructor(
    db: Database,
    path: string,
    logSync: LogSync | undefined,
    freeSpace: (options: { usesReserve: boolean }) => void,
  ) {
    this.#db = db;
    this.#path = path;
    this.#freeSpace = freeSpace;
    this.#logSync = logSync;
    // Created once, because better-sqlite3 creates four functions for each transaction.
    this.#batchTransaction = db.transaction((jobs: readonly Job[]) => this.#runJobs(jobs));
    this.#jobTransaction = db.transaction((job: Job) => job.run());
  }

  /**
   * Calls `run` inside a transaction that holds the write lock. After a rollback `run` is called again with the state
   * before the first call. Resolves after the commit.
   */
  add<T>({ needsSync, isPatient = false, usesReserve = false }: ChangeOptions, run: () => T): Promise<T> {
    const deadlineMs = monotonicMs() + (isPatient ? MAX_PATIENT_WAIT_MS : MAX_WAIT_MS);
    return new Promise<T>((resolve, reject) => {
      this.#jobs.push({ run, needsSync, usesReserve, deadlineMs, resolve, reject });
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

  async #runBatch(batch: readonly Job[]): Promise<void> {
    let jobs = batch;
    let outcomes: readonly Outcome[] = [];
    let hasFreedSpace = false;
    for (let attempt = 0; jobs.length > 0; attempt++)
      try {
        outcomes = this.#batchTransaction.immediate(jobs);
        break;
      } catch (error) {
        if (isBusy(error)) {
          jobs = this.#rejectExpired(jobs, error);
          await backOff(attempt);
        } else if (jobs.length > 1) {
          // One job made the complete transaction fail. In a transaction of its own, each job gets its own result.
          for (const job of jobs) await this.#runBatch([job]);
          return;
        } else if (isFull(error) && !hasFreedSpace) {
          hasFreedSpace = true;
          this.#freeSpace({ usesReserve: jobs[0]?.usesReserve === true });
        } else {
          jobs[0]?.reject(error);
          return;
        }
      }
    if (jobs.length > 0) this.#logSync?.recordCommit();
    jobs.forEach((job, index) => {
      const outcome = outcomes[index];
      if (!outcome || "error" in outcome) job.reject(outcome?.error);
      else if (job.needsSync) this.waitUntilSynced().then(() => job.resolve(outcome.value as never), job.reject);
      else job.resolve(outcome.value as never);
    });
  }

  /** Rejects the jobs of a batch, and those that wait for it, whose time is over. Returns the other jobs of the batch. */
  #rejectExpired(jobs: readonly Job[], cause: unknown): readonly Job[] {
    const currentMs = monotonicMs();
    const isExpired = ({ deadlineMs }: Job): boolean => deadlineMs < currentMs;
    const expiredJobs = [...jobs, ...this.#jobs].filter(isExpired);
    if (expiredJobs.length === 0) return jobs;
    const error = createLockedError(this.#path, cause);
    for (const job of expiredJobs) job.reject(error);
    this.#jobs = this.#jobs.filter((job) => !isExpired(job));
    return jobs.filter((job) => !isExpired(job));
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

/** Returns the error of a file that another process blocks. */
export function createLockedError(path: string, cause: unknown): StoreError {
  const lockHolder = describeHolder(findLockHolder(path));
  return new StoreError(`session store ${path}: locked by ${lockHolder}; continue or stop it`, { cause, lockHolder });
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
