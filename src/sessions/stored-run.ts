import type { RunRecord } from "../ports/run.js";
import type { StoredRun } from "../ports/session-queries.js";
import type { SharedClock } from "../base/clock.js";
import { now } from "../base/ids.js";
import { hasLiveHolder, isDead } from "./lease.js";

/** Whether a run is stored as not ended. */
export function isOpen({ state }: RunRecord): boolean {
  return state === "queued" || state === "running" || state === "waiting";
}

/** Whether a live process waits in the queue with the run. `store`: the store of the run. */
export function isQueued({ state, queueLease }: RunRecord, store: SharedClock): boolean {
  return state === "queued" && queueLease !== null && queueLease.expiresAt > now(store) && !isDead(queueLease.holder);
}

/**
 * Returns the run with its effective state: `interrupted` if it is stored as active but no live process continues it.
 * `store`: the store of the run.
 */
export function withEffectiveState(storedRun: StoredRun, store: SharedClock): RunRecord {
  const { run } = storedRun;
  return isOpen(run) && !hasLiveHolder(storedRun) && !isQueued(run, store) ? toInterruptedRun(run) : run;
}

/** Returns the run as interrupted: its process died before it could write the end. The time of the end is unknown. */
export function toInterruptedRun(run: RunRecord): RunRecord {
  return { ...run, state: "interrupted", retry: null };
}

/**
 * Whether a run may be started again under its key: its process died or shut down, or its store failed. For any other
 * end, the stored answer is returned.
 */
export function canRestart({ state, error }: RunRecord): boolean {
  return state === "interrupted" || error?.code === "shutting_down" || error?.code === "store";
}

/** Whether a run comes before another in the queue: by time, then by id. */
export function isBefore(
  run: Pick<RunRecord, "startedAt" | "id">,
  otherRun: Pick<RunRecord, "startedAt" | "id">,
): boolean {
  return run.startedAt < otherRun.startedAt || (run.startedAt === otherRun.startedAt && run.id < otherRun.id);
}
