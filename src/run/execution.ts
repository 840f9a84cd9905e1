import { hasCode } from "../ports/errors.js";
import type { RunResult } from "../ports/run.js";
import { lastWrite } from "./finalize-run.js";
import { openWindow } from "../compaction/context-window.js";
import { runLoop, type LoopResult } from "./loop.js";
import type { RunContext } from "./context/run-context.js";
import { ending, failed, finished, isCancel } from "../sessions/run-record.js";
import { nameSession } from "./title.js";
import { notifierOf } from "../sessions/polling-notifier.js";

/** The whole of a run, from its first model call until its lease is given back. Rejects as `Run.result` says. */
export async function executeRun(run: RunContext): Promise<RunResult> {
  const { id: runId, sessionId, recorder, bus, events, logger } = run;
  const names = { sessionId, provider: run.provider.name, model: run.model.id };
  bus.emit("run.started", { runId, ...names });
  run.clock?.go();
  try {
    const { used, ...outcome } = await work(run).finally(() => {
      run.clock?.stand();
      return Promise.all([recorder.close(), run.inbox.close()]);
    });
    // An answer without calls brought the end with it.
    if (recorder.run.state === "running") {
      const { output, finishReason, endedBy } = outcome;
      const end = finished(endedBy, recorder.run.key === "" ? null : { output, finishReason });
      await lastWrite(run, (more) => recorder.end(end, more));
    }
    run.agent.kept.keep(sessionId, run.lease.fence, run.conversation);
    // What others write under the next lease comes behind this in the store, also after a power cut.
    await Promise.all([run.lease.giveBack(run.agent), recorder.onDisk]);
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
    // One whose first answer made calls was named beside them. Here whoever waits for the answer has it first.
    if (outcome.iterations === 1 && outcome.endedBy === "model") nameSession(run);
    return result;
  } catch (caught) {
    const error = ending(caught, run.signal);
    const why = { ...names, error: error.message };
    if (isCancel(error)) logger.info("run cancelled", why);
    else logger.warn("run failed", why);
    // A session that is deleted or went to another keeps no end of it.
    await lastWrite(run, (more) => recorder.end(failed(error), more)).catch(async (unstored: unknown) => {
      logger.debug("a run's end was not stored", { error: unstored });
      await run.lease.giveBack(run.agent);
      // Who waits in line elsewhere may have looked before the lease was free.
      notifierOf(run.store).publish(sessionId);
    });
    bus.emit("run.failed", { runId, sessionId, error });
    events.push({ type: "error", error });
    throw error;
  } finally {
    run.clock?.stand();
    run.leave();
    events.end();
  }
}

/** What the run is there for. */
async function work(run: RunContext): Promise<LoopResult> {
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
