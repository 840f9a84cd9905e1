import type { Message } from "../ports/message.js";
import type { Instruction, RunAnswer, RunResult } from "../ports/run.js";
import type { SessionChange } from "../ports/session-change.js";
import type { Usage } from "../ports/usage.js";
import { notifierOf } from "../sessions/polling-notifier.js";
import {
  createFailedFields,
  createFinishedFields,
  isCancel,
  selectEndTime,
  toRunError,
} from "../sessions/run-record.js";
import type { RunContext } from "./context/run-context.js";
import { generateTitle, titleFailedRun } from "./title.js";

/** Result of the loop. `usedTokens`: total tokens of the last model call. */
export type LoopResult = Pick<RunResult, "output" | "structured" | "iterations" | "finishReason" | "endedBy"> & {
  usedTokens: number;
};

/** Stores the final answer of a run, and its end in the same change. Rejects like `Recorder.finish`. */
export async function storeFinalAnswer(
  run: RunContext,
  message: Message,
  usage: Usage,
  iterations: number,
  answer: RunAnswer,
): Promise<void> {
  const { recorder } = run.session;
  const storesAnswer = recorder.run.idempotencyKey !== "" || "structured" in answer;
  const end = createFinishedFields("model", storesAnswer ? answer : null, endTimeOf(run));
  await storeEnd(run, (options) => recorder.finish(message, { usage, run: { iterations, ...end }, ...options }));
}

/**
 * Ends a run that has a result: stores the end unless a final answer did, releases the lease, and reports the result.
 * Rejects with the error that prevented it; `failRun` must follow then.
 */
export async function finishRun(run: RunContext, { usedTokens, ...outcome }: LoopResult): Promise<RunResult> {
  const { id: runId, sessionId } = run.info;
  const { conversation, lease, recorder, releaseLease } = run.session;
  const { output, finishReason, endedBy } = outcome;
  if (recorder.run.state === "running") {
    const end = createFinishedFields(
      endedBy,
      recorder.run.idempotencyKey === "" ? null : { output, finishReason },
      endTimeOf(run),
    );
    await storeEnd(run, (options) => recorder.end(end, options));
  }
  run.agent.caches.conversations.keep(sessionId, lease.fence, conversation);
  // Wait for the disk: a power failure must not keep changes under the next lease and lose changes of this run.
  await Promise.all([releaseLease(), recorder.onDisk]);
  const { usage } = recorder.run;
  const context = { used: usedTokens, size: run.model.model.contextWindow };
  const result: RunResult = { ...outcome, usage, sessionId, context, sessionUsage: recorder.sessionUsage };
  run.channels.bus.emit("run.finished", { runId, sessionId, result, run: recorder.run });
  run.channels.events.push({ type: "done", usage, endedBy });
  // After a first answer with calls, the title is already being generated. Otherwise the answer is delivered first.
  if (outcome.iterations === 1 && endedBy === "model") generateTitle(run);
  return result;
}

/** Ends a run that has no result. Resolves with the error of the run, which is stored and reported. Never rejects. */
export async function failRun(run: RunContext, thrownError: unknown): Promise<Error> {
  const { id: runId, sessionId } = run.info;
  const { recorder, releaseLease, store } = run.session;
  const { provider, model } = run.model;
  const { bus, events, logger } = run.channels;
  const error = toRunError(thrownError, run.signal);
  const fields = { provider: provider.name, model: model.id, error: error.message };
  if (isCancel(error)) logger.info("run cancelled", fields);
  else logger.warn("run failed", fields);
  const end = createFailedFields(error, endTimeOf(run));
  // The end cannot be stored if the session was deleted or another holder has the lease.
  await storeEnd(run, (options) => recorder.end(end, options)).catch(async (writeError: unknown) => {
    logger.debug("end of run was not stored; releasing its lease", { error: writeError });
    await releaseLease();
    // A run queued in another process may have checked before the lease was free.
    notifierOf(store).publish(sessionId);
  });
  bus.emit("run.failed", { runId, sessionId, error, run: { ...recorder.run, ...end } });
  events.push({ type: "error", error });
  titleFailedRun(run);
  return error;
}

/**
 * Stores the end of a run. The same change releases the run's lease and returns the instructions that arrived too
 * late. Rejects like `write`; the caller must then release the lease.
 */
async function storeEnd(
  { session: { lease }, channels: { inbox } }: RunContext,
  write: (options: Pick<SessionChange, "consumedInstructions" | "release">) => Promise<Instruction[]>,
): Promise<void> {
  const lateInstructions = await lease.releaseWith(() => {
    const cancelIds = inbox.cancelIds;
    return write({ release: true, ...(cancelIds.length > 0 && { consumedInstructions: cancelIds }) });
  });
  inbox.remainingInstructions = lateInstructions;
}

function endTimeOf({ session: { recorder, store } }: RunContext): string {
  return selectEndTime(recorder.run, store);
}
