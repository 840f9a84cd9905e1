import { abortable } from "../base/abort.js";
import { SessionBusyError } from "../ports/errors.js";
import { ActiveLease } from "./lease.js";
import type { FileHistory } from "../ports/file-history.js";
import type { Logger } from "../ports/logger.js";
import type { Session } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";

const DAY_MS = 86_400_000;
/** Maximum age of a session that a client opened and never prompted, in ms. */
export const EMPTY_MS = 7 * DAY_MS;
/** Time for which the key of an ended run is kept, in ms. */
export const KEY_MS = DAY_MS;
/**
 * Delay of the first run after the store was opened, in ms; up to twice as long at random. Short-lived processes never
 * reach it, and processes that start together do not run at the same time.
 */
const FIRST_RUN_DELAY_MS = 60_000;
const PAGE_SIZE = 100;

export interface HousekeepingOptions {
  driver: SessionDriver;
  logger: Logger;
  onDeleted: (id: string) => void;
  /** Its old records are removed too. */
  fileHistory?: FileHistory | undefined;
  /** Delay of the first run in ms. Default: one to two minutes, at random. */
  firstRunDelayMs?: number;
}

/** Periodic background cleanup of a store. */
export class Housekeeping {
  readonly #options: HousekeepingOptions;
  readonly #closeController = new AbortController();
  #timer: NodeJS.Timeout;
  #activeWork: Promise<void> = Promise.resolve();

  constructor(options: HousekeepingOptions) {
    this.#options = options;
    this.#timer = this.#schedule(options.firstRunDelayMs ?? FIRST_RUN_DELAY_MS * (1 + Math.random()));
  }

  /** Stops the cleanup. Resolves when no work is active. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#closeController.abort();
    await this.#activeWork;
  }

  #schedule(ms: number): NodeJS.Timeout {
    const timer = setTimeout(() => {
      this.#activeWork = this.#work();
      this.#timer = this.#schedule(DAY_MS);
    }, ms);
    return timer.unref();
  }

  async #work(): Promise<void> {
    const { driver, logger, onDeleted, fileHistory } = this.#options;
    try {
      await fileHistory?.sweep();
      await removeEmpty(driver, Date.now() - EMPTY_MS, logger, this.#closeController.signal, onDeleted);
      await driver.forgetKeys?.(new Date(Date.now() - KEY_MS).toISOString());
    } catch (error) {
      if (!this.#closeController.signal.aborted) logger.warn("store housekeeping failed", { error });
    }
  }
}

/**
 * Deletes sessions with an alias (created by a client's `session/new`) that never got a message and are older than
 * `before`, in ms since the epoch.
 */
export async function removeEmpty(
  driver: SessionDriver,
  before: number,
  logger: Logger,
  signal: AbortSignal,
  onDeleted: (id: string) => void,
): Promise<void> {
  const emptyBefore = new Date(before).toISOString();
  for (let last: Session | undefined; ;) {
    const page = await driver.list({ emptyBefore, limit: PAGE_SIZE, before: last });
    for (const session of page.sessions) {
      signal.throwIfAborted();
      if (session.alias !== "" && (await removeOne(driver, session.id, emptyBefore, logger))) onDeleted(session.id);
    }
    last = page.sessions.at(-1);
    if (page.sessions.length < PAGE_SIZE) return;
    // Yields to other work between pages.
    await abortable(new Promise((resolve) => setImmediate(resolve)), signal);
  }
}

/** Holds the session's lease, because a prompt may arrive at this moment. */
async function removeOne(driver: SessionDriver, id: string, emptyBefore: string, logger: Logger): Promise<boolean> {
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
