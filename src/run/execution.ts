import { hasCode } from "../ports/errors.js";
import type { RunResult } from "../ports/run.js";
import { finalizeRun } from "./finalize-run.js";
import { openWindow } from "../compaction/context-window.js";
import { runLoop, type LoopResult } from "./loop.js";
import type { RunContext } from "./context/run-context.js";
import { toRunError, createFailedFields, createFinishedFields, isCancel } from "../sessions/run-record.js";
import { generateTitle } from "./title.js";
import { notifierOf } from "../sessions/polling-notifier.js";

/** Executes a run, from its first model call until its lease is released. Rejects like `Run.result`. */
export async function executeRun(run: RunContext): Promise<RunResult> {
  const { id: runId, sessionId } = run.info;
  const { recorder } = run.session;
  const { bus, events, logger } = run.channels;
  const { provider, model } = run.model;
  const fields = { sessionId, provider: provider.name, model: model.id };
  bus.emit("run.started", { runId, ...fields });
  run.budget.clock?.start();
  try {
    const { usedTokens, ...outcome } = await runLoopOrCompaction(run).finally(() => {
      run.budget.clock?.pause();
      return Promise.all([recorder.close(), run.channels.inbox.close()]);
    });
    // The write of a final answer has already stored the end of the run.
    if (recorder.run.state === "running") {
      const { output, finishReason, endedBy } = outcome;
      const end = createFinishedFields(endedBy, recorder.run.idempotencyKey === "" ? null : { output, finishReason });
      await finalizeRun(run, (options) => recorder.end(end, options));
    }
    run.agent.caches.conversations.keep(sessionId, run.session.lease.fence, run.session.conversation);
    // Wait for the disk: a power failure must not keep changes under the next lease and lose changes of this run.
    await Promise.all([run.session.releaseLease(), recorder.onDisk]);
    const context = { used: usedTokens, size: model.contextWindow };
    const result: RunResult = {
      ...outcome,
      usage: recorder.run.usage,
      sessionId,
      context,
      sessionUsage: recorder.sessionUsage,
    };
    bus.emit("run.finished", { runId, sessionId, result });
    events.push({ type: "done", usage: result.usage, endedBy: result.endedBy });
    // After a first answer with calls, the title is already being generated. Otherwise the answer is delivered first.
    if (outcome.iterations === 1 && outcome.endedBy === "model") generateTitle(run);
    return result;
  } catch (thrownError) {
    const error = toRunError(thrownError, run.signal);
    const errorFields = { ...fields, error: error.message };
    if (isCancel(error)) logger.info("run cancelled", errorFields);
    else logger.warn("run failed", errorFields);
    // The end cannot be stored if the session was deleted or another holder has the lease.
    await finalizeRun(run, (options) => recorder.end(createFailedFields(error), options)).catch(
      async (writeError: unknown) => {
        logger.debug("end of run was not stored; releasing its lease", { error: writeError });
        await run.session.releaseLease();
        // A run queued in another process may have checked before the lease was free.
        notifierOf(run.session.store).publish(sessionId);
      },
    );
    bus.emit("run.failed", { runId, sessionId, error });
    events.push({ type: "error", error });
    throw error;
  } finally {
    run.budget.clock?.pause();
    await run.release();
    events.end();
  }
}

/** Runs the loop, or only the compaction if the run was started for it. */
async function runLoopOrCompaction(run: RunContext): Promise<LoopResult> {
  const { compactionInstruction } = run.info;
  if (compactionInstruction === undefined) return runLoop(run);
  const window = openWindow(run.agent.compaction, run.caller);
  const baseResult = { output: "", iterations: 0 } as const;
  try {
    const usedTokens = await window.compact(compactionInstruction);
    return { ...baseResult, usedTokens, finishReason: "stop", endedBy: "model" };
  } catch (error) {
    if (!hasCode(error, "budget")) throw error;
    return { ...baseResult, usedTokens: 0, finishReason: "length", endedBy: "budget" };
  }
}
