import { GantryError, hasCode, RunCancelledError } from "../ports/errors.js";
import type { RunResult } from "../ports/run.js";
import { found } from "../sessions/sessions.js";
import { runLoop } from "./loop.js";
import type { RunContext } from "./run-context.js";

/** The whole of a run, from its first model call until its lease is given back. Rejects as `Run.result` says. */
export async function executeRun(run: RunContext): Promise<RunResult> {
  const { id: runId, sessionId, bus, events } = run;
  const names = { sessionId, provider: run.provider.name, model: run.model.id };
  bus.emit("run.started", { runId, ...names });
  try {
    const { used, ...outcome } = await runLoop(run).finally(() => run.recorder.close());
    const session = await found(run.store, sessionId);
    await run.lease.giveBack();
    const context = { used, size: run.model.contextWindow };
    const result: RunResult = { ...outcome, sessionId, context, sessionUsage: session.usage };
    bus.emit("run.finished", { runId, sessionId, result });
    events.push({ type: "done", usage: result.usage });
    return result;
  } catch (caught) {
    await run.lease.giveBack();
    const error = ending(caught, run.signal);
    const meant = hasCode(error, "run_cancelled") || hasCode(error, "shutting_down");
    run.logger[meant ? "info" : "warn"](meant ? "run cancelled" : "run failed", { ...names, error: error.message });
    bus.emit("run.failed", { runId, sessionId, error });
    events.push({ type: "error", error });
    throw error;
  } finally {
    run.place.leave();
    events.end();
  }
}

/** Why a run ended, in the words of this package: a caller's own abort reason becomes `RunCancelledError`. */
export function ending(error: unknown, signal: AbortSignal): Error {
  const reason: unknown = signal.aborted ? signal.reason : error;
  if (reason instanceof GantryError) return reason;
  if (signal.aborted) return new RunCancelledError({ cause: reason });
  return reason instanceof Error ? reason : new Error(String(reason));
}
