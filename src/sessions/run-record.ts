import { now } from "../base/ids.js";
import { redact } from "../base/redact.js";
import { NO_USAGE } from "../conversation/usage.js";
import { GantryError, hasCode, RunCancelledError } from "../ports/errors.js";
import type { RunAnswer, RunRecord, RunResult } from "../ports/run.js";

/** A run that begins now. */
export function begun(
  names: Pick<RunRecord, "id" | "sessionId" | "provider" | "model" | "after" | "key" | "fingerprint">,
): RunRecord {
  const counts = { usage: NO_USAGE, iterations: 0 };
  return {
    ...names,
    state: "running",
    startedAt: now(),
    endedAt: "",
    ...counts,
    endedBy: "",
    error: null,
    line: null,
    retry: null,
    answer: null,
  };
}

/** One that came to its result. */
export function finished(endedBy: RunResult["endedBy"], answer: RunAnswer | null): Partial<RunRecord> {
  return { state: "finished", endedBy, endedAt: now(), error: null, retry: null, answer };
}

/** Whether it ended so because somebody wanted it. */
export function isCancel(error: Error): boolean {
  return hasCode(error, "run_cancelled") || hasCode(error, "shutting_down");
}

/** One that came to none. */
export function failed(error: Error): Partial<RunRecord> {
  const state = isCancel(error) ? "cancelled" : "failed";
  return { state, endedBy: "", endedAt: now(), error: told(error), retry: null };
}

/** What clients may know of an error; the rest is in the log. */
function told(error: Error): { code: string; message: string } {
  // A store's error names files of the server.
  if (hasCode(error, "store"))
    return {
      code: error.code,
      message: error.full ? "no room left" : error.unavailable ? "session store unavailable" : "internal error",
    };
  if (error instanceof GantryError || hasCode(error, "provider"))
    return { code: error.code, message: redact(error.message) };
  return { code: "internal", message: "internal error" };
}

/** Why a run ended, in the words of this package: a caller's own abort reason becomes `RunCancelledError`. */
export function ending(error: unknown, signal: AbortSignal): Error {
  const reason: unknown = signal.aborted ? signal.reason : error;
  if (reason instanceof GantryError) return reason;
  if (signal.aborted) return new RunCancelledError({ cause: reason });
  return reason instanceof Error ? reason : new Error(String(reason));
}
