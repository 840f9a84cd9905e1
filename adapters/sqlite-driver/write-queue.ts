import { setTimeout as sleep } from "node:timers/promises";
import type { Database, Transaction } from "better-sqlite3";
import { StoreError } from "gantry";
import { isBusy, sqliteCode } from "./errors.js";
import type { LogSync } from "./log-sync.js";

/** How long one may wait for other processes before giving up, in ms. */
const PATIENCE_MS = 60_000;
/** Most changes that share a transaction. */
const GROUP = 64;

interface Job {
  run: () => unknown;
  sync: boolean;
  since: number;
  resolve: (value: never) => void;
  reject: (error: unknown) => void;
}

type Outcome = { value: unknown } | { error: unknown };

/** Run `step` again for as long as another process is in the way. The event loop is free between two tries. */
export async function patiently<T>(step: () => T, since = Date.now()): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return step();
    } catch (error) {
      if (!isBusy(error)) throw error;
      if (Date.now() - since > PATIENCE_MS) throw gaveUp(error);
      await backOff(attempt);
    }
  }
}

/**
 * All writes of a driver, first come, first served. What piled up since the last turn of the event loop shares one
 * transaction; each change is still whole or not at all, and its error its own. The disk is waited for without the event
 * loop: what is done meanwhile shares the next sync.
 */
export class WriteQueue {
  readonly #db: Database;
  readonly #disk: LogSync | undefined;
  readonly #jobs: Job[] = [];
  readonly #whole: Transaction<(jobs: readonly Job[]) => readonly Outcome[]>;
  readonly #one: Transaction<(job: Job) => unknown>;
  #pumping = false;

  /** `disk`: left out where a commit does all that is wanted. */
  constructor(db: Database, disk: LogSync | undefined) {
    this.#db = db;
    this.#disk = disk;
    // Made once: better-sqlite3 makes four functions of each.
    this.#whole = db.transaction((jobs: readonly Job[]) => this.#outcomes(jobs));
    this.#one = db.transaction((job: Job) => job.run());
  }

  /** Run inside a transaction that holds the write lock. May run more than once, each time from a clean state. */
  add<T>(sync: boolean, run: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#jobs.push({ run, sync, since: Date.now(), resolve, reject });
      // Never rejects: each job hears of its own failure, and whoever added it waits for it.
      if (!this.#pumping) void this.#pump();
    });
  }

  /** Resolves when the disk has all that was done until now. */
  async synced(): Promise<void> {
    await this.#disk?.synced();
  }

  async #pump(): Promise<void> {
    this.#pumping = true;
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#jobs.length > 0) {
      await this.#group(this.#jobs.splice(0, GROUP));
      // Other work of the process gets its turn between two groups.
      if (this.#jobs.length > 0) await new Promise((resolve) => setImmediate(resolve));
    }
    // In the same turn as the last look at the list, so that nothing is added to a pump that has ended.
    this.#pumping = false;
  }

  async #group(jobs: readonly Job[]): Promise<void> {
    const first = jobs[0];
    if (!first) return;
    let outcomes: readonly Outcome[];
    try {
      outcomes = await patiently(() => this.#whole.immediate(jobs), first.since);
    } catch (error) {
      if (jobs.length === 1) {
        first.reject(error);
        return;
      }
      // One of them took the whole transaction down; alone, each gets its own answer.
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

  /** In one transaction. Throws when it is rolled back as a whole. */
  #outcomes(jobs: readonly Job[]): readonly Outcome[] {
    const alone = jobs.length === 1;
    return jobs.map((job): Outcome => {
      if (alone) return { value: job.run() };
      try {
        return { value: this.#one(job) };
      } catch (error) {
        // A full disk or a failing one ends the outer transaction too.
        if (!this.#db.inTransaction || sqliteCode(error) !== "") throw error;
        return { error };
      }
    });
  }
}

async function backOff(attempt: number): Promise<void> {
  const most = Math.min(80, 4 * 2 ** Math.min(attempt, 5));
  await sleep(1 + Math.random() * most);
}

function gaveUp(cause: unknown): StoreError {
  return new StoreError(
    `session store: another process has been writing for ${PATIENCE_MS / 1000} s without a pause; is one stuck?`,
    { cause },
  );
}
