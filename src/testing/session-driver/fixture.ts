import type { SessionDriver } from "../../ports/session-driver.js";

/** How the checks get at a driver. Every function may take its time; none is called while another one runs. */
export interface SessionDriverFixture {
  /** A store that is empty, and a driver on it, opened. Called once at the start of every check. */
  create(): Promise<SessionDriver>;
  /** Another opened driver on the store of `driver`, which stays open: what a second process would have. */
  second(driver: SessionDriver): Promise<SessionDriver>;
  /** An opened driver on the store of `driver`, which the check has closed: what a restarted process would have. */
  reopen(driver: SessionDriver): Promise<SessionDriver>;
  /** Remove what `create` left behind. Called at the end of every check, when it has closed every driver, also a failed one. */
  clean(): Promise<void>;
  /**
   * Hold up the next change that comes to the store, at the place where all of it is written and nobody sees it yet: of a
   * transaction, before its commit. Changes that come after it are not held; they may have to wait for it. So the checks
   * force races, which without it are left to luck. Left out for a store where nothing can come between what a call
   * reads and what it writes: one that does each call in one step, or one call at a time.
   *
   * Part 0 is that alone. With a part from 1 on, whoever reads that part of the store waits for the held change as well,
   * so that a reader is caught between two parts (of a database, its tables, in any order). Undefined behind the last.
   */
  hold?: ((part: number) => Promise<HeldStore | undefined>) | undefined;
  /** A call that was not answered after so many milliseconds hangs: its check fails, and the next one is made. Default 30,000. */
  timeoutMs?: number | undefined;
}

/** A store where the next change is held up. */
export interface HeldStore {
  /** How many calls cannot go on now: the change that is held, and those that wait for it. */
  waiting(): Promise<number>;
  /** Let the change go on, and hold up nothing any more. */
  resume(): Promise<void>;
}
