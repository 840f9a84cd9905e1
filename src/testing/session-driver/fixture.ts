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
}
