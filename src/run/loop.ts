import { nowNotBefore } from "../base/ids.js";
import { openWindow } from "../compaction/context-window.js";
import { createMessage, createToolMessage, toolCalls } from "../conversation/messages.js";
import { withState } from "../conversation/conversation.js";
import { hasCode, OutputSchemaError } from "../ports/errors.js";
import type { Message } from "../ports/message.js";
import type { RunResult } from "../ports/run.js";
import { runToolCalls, type ToolOutcome } from "./calls/execute.js";
import { RepeatedCalls } from "./calls/repeated-calls.js";
import type { RunContext } from "./context/run-context.js";
import { failRun, finishRun, type LoopResult } from "./end-run.js";
import { generateTitle } from "./title.js";
import { ModelTurn, type RunProgress } from "./model-turn.js";

/** Maximum retries within one run after a final answer did not match the output schema. */
const MAX_SCHEMA_RETRIES = 2;

/** Executes a run, from its first model call until its lease is released. Rejects like `Run.result`. */
export async function executeRun(run: RunContext): Promise<RunResult> {
  const { provider, model } = run.model;
  const { id: runId, sessionId, parentCall, trace } = run.info;
  const parent = parentCall && { runId: parentCall.parentRun.info.id, callId: parentCall.callId };
  run.channels.bus.emit("run.started", { runId, sessionId, provider: provider.name, model: model.id, parent, trace });
  run.budget.clock?.start();
  try {
    const outcome = await runUntilEnd(run).finally(() => {
      run.budget.clock?.pause();
      return Promise.all([run.session.recorder.close(), run.channels.inbox.close()]);
    });
    return await finishRun(run, outcome);
  } catch (error) {
    throw await failRun(run, error);
  } finally {
    run.budget.clock?.pause();
    await run.release();
    run.channels.events.end();
  }
}

/** Runs the loop, or only the compaction if the run was started for it. Rejects like both, but not at the budget. */
async function runUntilEnd(run: RunContext): Promise<LoopResult> {
  const { compactionInstruction } = run.info;
  // A continued run has made calls before.
  const { iterations } = run.session.recorder.run;
  const progress: RunProgress = { output: "", iterations, usedTokens: 0, schemaRetries: 0 };
  try {
    if (compactionInstruction === undefined) return await runLoop(run, progress);
    const usedTokens = await openWindow(run.agent.compaction, run.caller).compact(compactionInstruction);
    return { output: "", iterations: 0, usedTokens, finishReason: "stop", endedBy: "model" };
  } catch (error) {
    // The budget does not cover another call, or the time limit is reached. Every other error is a failure of the run.
    if (!hasCode(error, "budget")) throw error;
    return endAtLimit(run, progress, "budget");
  }
}

/**
 * Runs the agent loop: model, tools, model, until the model makes no more calls or a limit is reached. Rejects with the
 * provider's error, `RepeatedCallsError`, or the signal's reason. All messages are stored before it rejects.
 */
async function runLoop(run: RunContext, progress: RunProgress): Promise<LoopResult> {
  const window = openWindow(run.agent.compaction, run.caller);
  const repeatedCalls = new RepeatedCalls();
  for (;;) {
    run.signal.throwIfAborted();
    await takeSteering(run);
    const turn = await new ModelTurn(run, window, progress).ask();
    const { message, parsedOutput } = turn;
    if (turn.isEnd) {
      const structured = parsedOutput && "value" in parsedOutput ? { structured: parsedOutput.value } : {};
      return { ...toLoopResult(progress), ...structured, finishReason: turn.finishReason, endedBy: "model" };
    }
    if (parsedOutput && "mismatch" in parsedOutput) await requestValidOutput(run, progress, parsedOutput.mismatch);
    const calls = toolCalls(message);
    if (turn.isBudgetExhausted && calls.length === 0) return endAtLimit(run, progress, "budget");
    // The title is generated in parallel with the calls; without calls, at the end of the run.
    if (progress.iterations === 1) generateTitle(run);
    repeatedCalls.startAnswer();
    await runToolCalls(calls, message.id, run, (outcome) => storeResult(run, outcome, repeatedCalls));
    run.signal.throwIfAborted();
    repeatedCalls.throwIfLooping();
    if (progress.iterations >= run.budget.limits.iterations) return endAtLimit(run, progress, "max_iterations");
  }
}

/** Adds the steering instructions that have arrived to the conversation. */
async function takeSteering(run: RunContext): Promise<void> {
  const instructions = run.channels.inbox.takeSteering();
  if (instructions.length === 0) return;
  const texts = instructions.map(({ text }) => text);
  const messages = await addUserMessages(run, texts, { consumedInstructions: instructions.map(({ id }) => id) });
  for (const [i, message] of messages.entries())
    run.channels.events.push({ type: "steered", messageId: message.id, text: texts[i] ?? "" });
}

/**
 * Adds a message for the model with the reason why its answer is invalid. Rejects with `OutputSchemaError` after
 * `MAX_SCHEMA_RETRIES`.
 */
async function requestValidOutput(run: RunContext, progress: RunProgress, mismatch: string): Promise<void> {
  if (progress.schemaRetries >= MAX_SCHEMA_RETRIES) throw new OutputSchemaError(mismatch);
  progress.schemaRetries += 1;
  const fields = { session: run.info.sessionId, attempt: progress.schemaRetries };
  run.channels.logger.warn("answer does not match the output schema; retrying", fields);
  const instruction = `[Your answer could not be used: ${mismatch}. Answer again with the whole JSON, and nothing else.]`;
  await addUserMessages(run, [instruction]);
}

/** Stores user messages, and adds them to the conversation. */
async function addUserMessages(
  { session: { conversation, recorder, store } }: RunContext,
  texts: readonly string[],
  changes: { readonly consumedInstructions?: readonly string[] } = {},
): Promise<Message[]> {
  const messages = texts.map((text) => conversation.compose(createMessage("user", text)));
  await recorder.write({
    sync: true,
    add: messages,
    ...changes,
    set: { updatedAt: nowNotBefore(recorder.run.startedAt, store) },
  });
  for (const message of messages) conversation.add(message);
  return messages;
}

/** Stores and publishes the result of a tool call, and adds it to the conversation. */
async function storeResult(run: RunContext, outcome: ToolOutcome, repeatedCalls: RepeatedCalls): Promise<void> {
  const { conversation, recorder } = run.session;
  const { call, output, refused, state, shown } = outcome;
  const { parts = [], diff = [], locations = [] } = output;
  const failed = output.failed === true;
  const text = output.text + repeatedCalls.recordCall(call, output.text);
  const result = withState(createToolMessage(call, text, failed), state);
  result.parts.push(...parts);
  const message = { ...conversation.compose(result), ...(shown && { shown }) };
  await recorder.finish(message);
  conversation.add(message);
  const display = { ...(refused && { refused }), parts, diff, locations };
  const { id: callId, name } = call;
  run.channels.events.push({
    type: "tool_result",
    messageId: message.id,
    callId,
    name,
    output: text,
    failed,
    ...display,
  });
}

function endAtLimit(
  run: RunContext,
  progress: RunProgress,
  endedBy: Exclude<LoopResult["endedBy"], "model">,
): LoopResult {
  const fields = { session: run.info.sessionId, iterations: progress.iterations, endedBy };
  const usageField = endedBy === "budget" ? { usage: run.session.recorder.run.usage } : {};
  run.channels.logger.warn("run ended at a limit", { ...fields, ...usageField });
  return { ...toLoopResult(progress), finishReason: "length", endedBy };
}

function toLoopResult({ output, iterations, usedTokens }: RunProgress) {
  return { output, iterations, usedTokens };
}
