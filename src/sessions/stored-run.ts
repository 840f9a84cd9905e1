import type { RunRecord } from "../ports/run.js";
import type { StoredRun } from "../ports/session-driver.js";
import { now } from "../base/ids.js";
import { goesOn, isGone } from "./lease.js";

/** Whether a run is stored as one that has not ended. */
export function isOpen({ state }: RunRecord): boolean {
  return state === "queued" || state === "running" || state === "waiting";
}

/** Whether somebody waits in line with it. */
export function waitsInLine({ state, line }: RunRecord): boolean {
  return state === "queued" && line !== null && line.until > now() && !isGone(line.holder);
}

/** A run as it is: one that nobody goes on with was interrupted, whatever the store says. */
export function asItIs(stored: StoredRun): RunRecord {
  const { run } = stored;
  return isOpen(run) && !goesOn(stored) && !waitsInLine(run) ? interrupted(run) : run;
}

/** One whose process died before it could write its end; when that was nobody saw. */
export function interrupted(run: RunRecord): RunRecord {
  return { ...run, state: "interrupted", retry: null };
}

/**
 * Whether a run came to no end of its own: its process died, was told to stop, or lost its store. Under its key it is
 * begun again; any other end is told again.
 */
export function brokeOff({ state, error }: RunRecord): boolean {
  return state === "interrupted" || error?.code === "shutting_down" || error?.code === "store";
}

/** The order of a line: by time, then by id. */
export function isBefore(a: Pick<RunRecord, "startedAt" | "id">, b: Pick<RunRecord, "startedAt" | "id">): boolean {
  return a.startedAt < b.startedAt || (a.startedAt === b.startedAt && a.id < b.id);
}
