import { setTimeout as sleep } from "node:timers/promises";
import type { Database } from "better-sqlite3";
import { isNearlyFull, monotonicMs } from "gantry/plugin";
import { isBusy } from "./errors.js";
import { findLockHolder } from "./lock-holder.js";
import type { Statements } from "./statements.js";
import { createLockedError } from "./write-queue.js";

/** Maximum wait for the write lock, in ms. */
const MAX_LOCK_WAIT_MS = 1_200;
const RETRY_DELAY_MS = 20;

/**
 * Takes the write lock for a moment, and writes a page if the disk of the file is nearly full. Rejects with `StoreError`
 * if one process holds the lock for the whole time; a lock that many processes take in turn is free soon.
 */
export async function probeStore(db: Database, statements: Statements, path: string): Promise<void> {
  const needsWrite = isNearlyFull(path);
  const write = db.transaction(() => {
    if (needsWrite) statements.run("UPDATE fence SET last = last");
  });
  const deadlineMs = monotonicMs() + MAX_LOCK_WAIT_MS;
  const holderPids = new Set<number | undefined>();
  for (;;)
    try {
      write.immediate();
      return;
    } catch (error) {
      if (!isBusy(error)) throw error;
      holderPids.add(findLockHolder(path)?.pid);
      if (monotonicMs() > deadlineMs) {
        if (holderPids.size > 1) return;
        throw createLockedError(path, error);
      }
      await sleep(RETRY_DELAY_MS);
    }
}
