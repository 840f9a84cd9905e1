import { hasCode } from "../ports/errors.js";
import type { RunResult } from "../ports/run.js";
import { finalizeRun } from "./finalize-run.js";
import { openWindow } from "../compaction/context-window.js";
import { runLoop, type LoopResult } from "./loop.js";
import type { RunContext } from "./context/run-context.js";
import { asRunError, failedRecord, finishedRecord, isCancel } from "../sessions/run-record.js";
import { generateTitle } from "./title.js";
import { notifierOf } from "../sessions/polling-notifier.js";

/** Executes a run, from its first model call until its lease is released. Rejects like `Run.result`. */
export async function executeRun(run: RunContext): Promise<RunResult> {
  const { id: runId, sessionId, recorder, bus, events, logger } = run;
  const names = { sessionId, provider: run.provider.name, model: run.model.id };
  bus.emit("run.started", { runId, ...names });
  run.clock?.start();
  try {
    const { used, ...outcome } = await runWork(run).finally(() => {
      run.clock?.pause();
      return Promise.all([recorder.close(), run.inbox.close()]);
    });
    // The write of a final answer has already stored the end of the run.
    if (recorder.run.state === "running") {
      const { output, finishReason, endedBy } = outcome;
      const end = finishedRecord(endedBy, recorder.run.idempotencyKey === "" ? null : { output, finishReason });
      await finalizeRun(run, (options) => recorder.end(end, options));
    }
    run.agent.conversationCache.keep(sessionId, run.lease.fence, run.conversation);
    // Changes under the next lease are stored after this run's changes, even after a power failure.
    await Promise.all([run.lease.releaseWithRetries(run.agent), recorder.onDisk]);
    const context = { used, size: run.model.contextWindow };
    const result: RunResult = {
      ...outcome,
      usage: recorder.run.usage,
      sessionId,
      context,
      sessionUsage: recorder.sessionUsage,
    };
    bus.emit("run.finished", { runId, sessionId, result });
    events.push({ type: "done", usage: result.usage, endedBy: result.endedBy });
    // If the first answer made calls, the title was generated in parallel. Here the final answer is delivered first.
    if (outcome.iterations === 1 && outcome.endedBy === "model") generateTitle(run);
    return result;
  } catch (caught) {
    const error = asRunError(caught, run.signal);
    const why = { ...names, error: error.message };
    if (isCancel(error)) logger.info("run cancelled", why);
    else logger.warn("run failed", why);
    // The end cannot be stored if the session was deleted or another holder has the lease.
    await finalizeRun(run, (options) => recorder.end(failedRecord(error), options)).catch(async (unstored: unknown) => {
      logger.debug("end of run was not stored; releasing its lease", { error: unstored });
      await run.lease.releaseWithRetries(run.agent);
      // A run queued in another process may have checked before the lease was free.
      notifierOf(run.store).publish(sessionId);
    });
    bus.emit("run.failed", { runId, sessionId, error });
    events.push({ type: "error", error });
    throw error;
  } finally {
    run.clock?.pause();
    run.release();
    events.end();
  }
}

/** Runs the loop, or only the compaction if the run was started for it. */
async function runWork(run: RunContext): Promise<LoopResult> {
  if (run.compacts === undefined) return runLoop(run);
  const window = openWindow(run.agent.compaction, run);
  const ended = { output: "", iterations: 0 } as const;
  try {
    const used = await window.compact(run.compacts);
    return { ...ended, used, finishReason: "stop", endedBy: "model" };
  } catch (error) {
    if (!hasCode(error, "budget")) throw error;
    return { ...ended, used: 0, finishReason: "length", endedBy: "budget" };
  }
}
