import { abortable } from "../base/abort.js";
import { nowMs } from "../base/clock.js";
import { SessionBusyError } from "../ports/errors.js";
import { ActiveLease } from "./lease.js";
import type { FileHistory } from "../ports/file-history.js";
import type { Logger } from "../ports/logger.js";
import type { Session } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";

const DAY_MS = 86_400_000;
/** Maximum age of a session that a client opened and never prompted, in ms. */
export const MAX_EMPTY_SESSION_AGE_MS = 7 * DAY_MS;
/** Time for which the idempotency key of a run is kept after the run's start, in ms. Open runs keep their keys. */
export const RUN_KEY_RETENTION_MS = DAY_MS;
/**
 * Minimum delay of the first cleanup after the store was opened, in ms; at random up to twice as long. Short-lived
 * processes end before that, and processes that start together do not clean up at the same time.
 */
const FIRST_CLEANUP_DELAY_MS = 60_000;
/** Sessions per page. */
const PAGE_SIZE = 100;

/** Options of `Housekeeping`. */
export interface HousekeepingOptions {
  driver: SessionDriver;
  logger: Logger;
  /** Called with the id of each deleted session. */
  onDeleted: (id: string) => void;
  /** The cleanup also removes old records of this history. Undefined: none. */
  fileHistory?: FileHistory | undefined;
  /** Delay of the first cleanup in ms. Default: one to two minutes, at random. */
  firstCleanupDelayMs?: number;
}

/** Daily background cleanup of a store. */
export class Housekeeping {
  readonly #options: HousekeepingOptions;
  readonly #closeController = new AbortController();
  #timer: NodeJS.Timeout;
  #activeCleanup: Promise<void> = Promise.resolve();

  constructor(options: HousekeepingOptions) {
    this.#options = options;
    this.#timer = this.#schedule(options.firstCleanupDelayMs ?? FIRST_CLEANUP_DELAY_MS * (1 + Math.random()));
  }

  /** Stops the cleanup. Resolves when no work is active. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#closeController.abort();
    await this.#activeCleanup;
  }

  #schedule(delayMs: number): NodeJS.Timeout {
    const timer = setTimeout(() => {
      this.#activeCleanup = this.#cleanUp();
      this.#timer = this.#schedule(DAY_MS);
    }, delayMs);
    return timer.unref();
  }

  async #cleanUp(): Promise<void> {
    const { driver, logger, onDeleted, fileHistory } = this.#options;
    try {
      await fileHistory?.sweep();
      await deleteEmptySessions(
        driver,
        nowMs(driver) - MAX_EMPTY_SESSION_AGE_MS,
        logger,
        this.#closeController.signal,
        onDeleted,
      );
      await driver.forgetKeys?.(new Date(nowMs(driver) - RUN_KEY_RETENTION_MS).toISOString());
    } catch (error) {
      if (!this.#closeController.signal.aborted) logger.warn("store housekeeping failed", { error });
    }
  }
}

/**
 * Deletes sessions with an alias (created by a client's `session/new`) that never got a message and were last
 * updated before `updatedBeforeMs` (ms since 1970). Rejects with `StoreError` or the signal's reason.
 */
export async function deleteEmptySessions(
  driver: SessionDriver,
  updatedBeforeMs: number,
  logger: Logger,
  signal: AbortSignal,
  onDeleted: (id: string) => void,
): Promise<void> {
  const emptyBefore = new Date(updatedBeforeMs).toISOString();
  for (let lastSession: Session | undefined; ;) {
    const page = await driver.list({ emptyBefore, limit: PAGE_SIZE, before: lastSession });
    for (const session of page.sessions) {
      signal.throwIfAborted();
      if (session.alias !== "" && (await deleteSessionIfEmpty(driver, session.id, emptyBefore, logger)))
        onDeleted(session.id);
    }
    lastSession = page.sessions.at(-1);
    if (page.sessions.length < PAGE_SIZE) return;
    // Yields to other work between pages.
    await abortable(new Promise((resolve) => setImmediate(resolve)), signal);
  }
}

/**
 * Deletes a session if it is still empty; returns whether it was deleted. Holds the session's lease, because a prompt
 * may arrive at this moment.
 */
async function deleteSessionIfEmpty(
  driver: SessionDriver,
  id: string,
  emptyBefore: string,
  logger: Logger,
): Promise<boolean> {
  let lease: ActiveLease;
  try {
    lease = await ActiveLease.take(driver, id, logger);
  } catch (error) {
    if (error instanceof SessionBusyError) return false;
    throw error;
  }
  try {
    const session = await driver.get(id);
    if (session?.lastSeq !== 0 || session.updatedAt >= emptyBefore) return false;
    await driver.delete([id]);
    return true;
  } finally {
    await lease.release();
  }
}
