import type { SharedClock } from "../base/clock.js";
import { nowNotBefore } from "../base/ids.js";
import { redact } from "../base/redact.js";
import { NO_USAGE } from "../conversation/usage.js";
import { GantryError, hasCode, RunCancelledError } from "../ports/errors.js";
import type { RunAnswer, RunRecord, RunResult } from "../ports/run.js";

/** Creates the record of a run that starts. */
export function createRunRecord(
  runFields: Pick<
    RunRecord,
    "id" | "sessionId" | "provider" | "model" | "after" | "idempotencyKey" | "fingerprint" | "user" | "startedAt"
  >,
): RunRecord {
  const zeroCounts = { usage: NO_USAGE, iterations: 0 };
  return {
    ...runFields,
    state: "running",
    endedAt: "",
    ...zeroCounts,
    endedBy: "",
    error: null,
    queueLease: null,
    retry: null,
    answer: null,
  };
}

/** Returns the time at which a run ends: the current time of its store, but not before the run's start. */
export function selectEndTime({ startedAt }: Pick<RunRecord, "startedAt">, store: SharedClock): string {
  return nowNotBefore(startedAt, store);
}

/** Returns the changed fields of a run that finished with a result. */
export function createFinishedFields(
  endedBy: RunResult["endedBy"],
  answer: RunAnswer | null,
  endedAt: string,
): Partial<RunRecord> {
  return { state: "finished", endedBy, endedAt, error: null, retry: null, answer };
}

/** Whether the run ended because a caller or the shutdown cancelled it. */
export function isCancel(error: Error): boolean {
  return hasCode(error, "run_cancelled") || hasCode(error, "shutting_down");
}

/** Returns the changed fields of a run that ended without a result. */
export function createFailedFields(error: Error, endedAt: string): Partial<RunRecord> {
  const state = isCancel(error) ? "cancelled" : "failed";
  return { state, endedBy: "", endedAt, error: toClientError(error), retry: null };
}

/** Returns the part of an error that clients may know; the log has the complete error. */
function toClientError(error: Error): { code: string; message: string } {
  // A store error's message names files of the server.
  if (hasCode(error, "store"))
    return {
      code: error.code,
      message: error.isFull ? "no space left" : error.isUnavailable ? "session store unavailable" : "internal error",
    };
  if (error instanceof GantryError || hasCode(error, "provider"))
    return { code: error.code, message: redact(error.message) };
  return { code: "internal", message: "internal error" };
}

/** Returns the error that a run ends with. A caller's own abort reason becomes `RunCancelledError`. */
export function toRunError(error: unknown, signal: AbortSignal): Error {
  const reason: unknown = signal.aborted ? signal.reason : error;
  if (reason instanceof GantryError) return reason;
  if (signal.aborted) return new RunCancelledError({ cause: reason });
  return reason instanceof Error ? reason : new Error(String(reason));
}
