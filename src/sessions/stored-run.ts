import type { RunRecord } from "../ports/run.js";
import type { StoredRun } from "../ports/session-driver.js";
import { goesOn } from "./lease.js";

/** Whether a run is stored as one that has not ended. */
export function isOpen({ state }: RunRecord): boolean {
  return state === "running" || state === "waiting";
}

/** A run as it is: one that nobody goes on with was interrupted, whatever the store says. */
export function asItIs(stored: StoredRun): RunRecord {
  return isOpen(stored.run) && !goesOn(stored) ? interrupted(stored.run) : stored.run;
}

/** One whose process died before it could write its end; when that was nobody saw. */
export function interrupted(run: RunRecord): RunRecord {
  return { ...run, state: "interrupted", retry: null };
}
