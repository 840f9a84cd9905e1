import type { SessionDriver } from "../../ports/session-driver.js";

/** Gives the checks access to a driver. The functions can take any time, and are called one at a time. */
export interface SessionDriverFixture {
  /** Creates an empty store with an opened driver. Called once at the start of every check. */
  create(): Promise<SessionDriver>;
  /** Opens another driver on the store of `driver`, which stays open. The new driver stands for a second process. */
  second(driver: SessionDriver): Promise<SessionDriver>;
  /**
   * Opens a driver on the store of `driver`, which the check has closed. The new driver stands for a restarted process.
   */
  reopen(driver: SessionDriver): Promise<SessionDriver>;
  /**
   * Removes what `create` left. Called at the end of every check, after all drivers were closed, even if a close
   * failed.
   */
  clean(): Promise<void>;
  /**
   * Holds the next change when it is completely written but not yet visible: in a transaction, before the commit. Later
   * changes are not held, but may have to wait. With `hold`, checks force races, which otherwise depend on chance.
   *
   * Omit `hold` if no other call can come between the reads and writes of a call.
   *
   * Part 0 holds only the change. With part 1 and above, readers of that part of the store wait too, so that a reader
   * is caught between two parts. The parts of a database are its tables, in any order. Resolves with undefined after
   * the last part.
   */
  hold?: ((part: number) => Promise<HeldStore | undefined>) | undefined;
  /** Time limit of a call, in ms. A longer call fails its check, and the next check runs. Default 30,000. */
  timeoutMs?: number | undefined;
}

/** A store whose next change is held. */
export interface HeldStore {
  /** Number of blocked calls: the held change and the calls that wait for it. */
  waiting(): Promise<number>;
  /** Releases the held change. No further change is held. */
  resume(): Promise<void>;
}
