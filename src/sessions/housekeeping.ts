import { abortable } from "../base/abort.js";
import { SessionBusyError } from "../ports/errors.js";
import { HeldLease } from "./lease.js";
import type { FileHistory } from "../ports/file-history.js";
import type { Logger } from "../ports/logger.js";
import type { Session } from "../ports/session.js";
import type { SessionDriver } from "../ports/session-driver.js";

const DAY_MS = 86_400_000;
/** A session that a client opened and never prompted is kept so long. */
export const EMPTY_MS = 7 * DAY_MS;
/** The key of a run that has ended is kept so long. */
export const KEY_MS = DAY_MS;
/**
 * The first look comes so long after the store was opened, in ms, or up to twice as long: a short-lived process never pays
 * for it, and those that were started together do not all look at once. What one has removed the others pass over.
 */
const FIRST_MS = 60_000;
const PAGE = 100;

export interface HousekeepingOptions {
  driver: SessionDriver;
  logger: Logger;
  onDeleted: (id: string) => void;
  /** What is old in it goes, too. */
  fileHistory?: FileHistory | undefined;
  /** Default a minute. */
  firstMs?: number;
}

/** What is done to a store in the background, now and then. */
export class Housekeeping {
  readonly #options: HousekeepingOptions;
  readonly #closing = new AbortController();
  #timer: NodeJS.Timeout;
  #working: Promise<void> = Promise.resolve();

  constructor(options: HousekeepingOptions) {
    this.#options = options;
    this.#timer = this.#in(options.firstMs ?? FIRST_MS * (1 + Math.random()));
  }

  /** Nothing is under way any more. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#closing.abort();
    await this.#working;
  }

  #in(ms: number): NodeJS.Timeout {
    const timer = setTimeout(() => {
      this.#working = this.#work();
      this.#timer = this.#in(DAY_MS);
    }, ms);
    return timer.unref();
  }

  async #work(): Promise<void> {
    const { driver, logger, onDeleted, fileHistory } = this.#options;
    try {
      await fileHistory?.sweep();
      await removeEmpty(driver, Date.now() - EMPTY_MS, logger, this.#closing.signal, onDeleted);
      await driver.forgetKeys?.(new Date(Date.now() - KEY_MS).toISOString());
    } catch (error) {
      if (!this.#closing.signal.aborted) logger.warn("what is old in the session store was not removed", { error });
    }
  }
}

/** Delete the sessions with an alias (made by a client's `session/new`) that got no message and are older than `before`, in ms since the epoch. */
export async function removeEmpty(
  driver: SessionDriver,
  before: number,
  logger: Logger,
  signal: AbortSignal,
  onDeleted: (id: string) => void,
): Promise<void> {
  const emptyBefore = new Date(before).toISOString();
  for (let last: Session | undefined; ;) {
    const page = await driver.list({ emptyBefore, limit: PAGE, before: last });
    for (const session of page.sessions) {
      signal.throwIfAborted();
      if (session.alias !== "" && (await removeOne(driver, session.id, emptyBefore, logger))) onDeleted(session.id);
    }
    last = page.sessions.at(-1);
    if (page.sessions.length < PAGE) return;
    // Between pages others have their turn.
    await abortable(new Promise((resolve) => setImmediate(resolve)), signal);
  }
}

/** Under its lease, as a prompt may come this very moment. */
async function removeOne(driver: SessionDriver, id: string, emptyBefore: string, logger: Logger): Promise<boolean> {
  let lease: HeldLease;
  try {
    lease = await HeldLease.take(driver, id, logger);
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
