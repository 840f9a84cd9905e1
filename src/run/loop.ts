import { openWindow, type ContextWindow } from "../compaction/context-window.js";
import { hasCode, OutputSchemaError } from "../ports/errors.js";
import type { RunResult } from "../ports/run.js";
import { now } from "../base/ids.js";
import { toolCalls, textOf, toolMessage } from "../conversation/messages.js";
import { withState } from "../conversation/stored-state.js";
import { visibleParts as toldPartsOf, uniqueCalls } from "../models/answer.js";
import { callModel, type FailedCall, type ModelCallHooks } from "../models/model-call.js";
import { recordRetries } from "../models/record-retries.js";
import type { FinishReason } from "../ports/model-provider.js";
import type { Message, Part } from "../ports/message.js";
import { RepeatedCalls } from "./calls/repeated-calls.js";
import {
  MAX_SCHEMA_RETRIES,
  findInvalidAnswer,
  toInvalidAnswer,
  MAX_INVALID_ANSWERS,
  withUserNote,
  schemaInstruction,
  retryInstruction,
} from "./invalid-answer.js";
import { finalizeRun, type FinalizeOptions } from "./finalize-run.js";
import { limitReached } from "./budget/limits.js";
import type { RunContext } from "./context/run-context.js";
import { finishedRecord } from "../sessions/run-record.js";
import type { ParsedOutput } from "./context/structured-output.js";
import { generateTitle } from "./title.js";
import { runToolCalls } from "./calls/execute.js";

export type LoopResult = Pick<RunResult, "output" | "structured" | "iterations" | "finishReason" | "endedBy"> & {
  used: number;
};

/** Progress of a run. Also correct if the run ends in the middle of a turn. */
interface Progress {
  output: string;
  /** Number of completed model answers. */
  iterations: number;
  /** Total tokens of the last model call. */
  used: number;
  /** Number of retries because an answer did not match the output schema. */
  schemaRetries: number;
}

/**
 * Runs the agent loop: model, tools, model, until the model makes no more calls or a limit is reached. Rejects with the
 * provider's error, `RepeatedCallsError`, or the signal's reason. All messages are stored before it rejects.
 */
export async function runLoop(run: RunContext): Promise<LoopResult> {
  const progress: Progress = { output: "", iterations: 0, used: 0, schemaRetries: 0 };
  try {
    return await turns(run, progress);
  } catch (error) {
    // The budget does not cover another call, or the time limit is reached. Every other error is a failure of the run.
    if (!hasCode(error, "budget")) throw error;
    return atLimit(run, progress, "budget");
  }
}

async function turns(run: RunContext, progress: Progress): Promise<LoopResult> {
  const window = openWindow(run.agent.compaction, run);
  const repeated = new RepeatedCalls();
  for (;;) {
    run.signal.throwIfAborted();
    await applySteering(run);
    const { message, reason, isEnd, isBudgetExhausted, read } = await turn(run, window, progress);
    if (isEnd) return { ...loopResult(progress), ...structured(read), finishReason: reason, endedBy: "model" };
    if (read && "misfit" in read) await retryForSchema(run, progress, read.misfit);
    const calls = toolCalls(message);
    if (isBudgetExhausted && calls.length === 0) return atLimit(run, progress, "budget");
    // The title is generated in parallel with the calls; without calls, at the end of the run.
    if (progress.iterations === 1) generateTitle(run);
    repeated.nextAnswer();
    await runToolCalls(calls, message.id, run, async ({ call, output: done, refused, state, shown }) => {
      const failed = done.failed === true;
      const text = done.text + repeated.note(call, done.text);
      const result = withState(toolMessage(call, text, failed), state);
      result.parts.push(...(done.parts ?? []));
      const stored = { ...run.conversation.compose(result), ...(shown && { shown }) };
      await run.recorder.finish(stored);
      run.conversation.add(stored);
      run.events.push({
        type: "tool_result",
        messageId: stored.id,
        callId: call.id,
        name: call.name,
        output: text,
        failed,
        ...(refused && { refused }),
        parts: done.parts ?? [],
        diff: done.diff ?? [],
        locations: done.locations ?? [],
      });
    });
    run.signal.throwIfAborted();
    repeated.check();
    const endedBy = limitReached(run.limits, progress);
    if (endedBy) return atLimit(run, progress, endedBy);
  }
}

function atLimit(run: RunContext, progress: Progress, endedBy: Exclude<LoopResult["endedBy"], "model">): LoopResult {
  const { recorder, sessionId: session, logger } = run;
  const usageField = endedBy === "budget" ? { usage: recorder.run.usage } : {};
  logger.warn("run ended at a limit", { session, iterations: progress.iterations, endedBy, ...usageField });
  return { ...loopResult(progress), finishReason: "length", endedBy };
}

function loopResult({ output, iterations, used }: Progress): Pick<LoopResult, "output" | "iterations" | "used"> {
  return { output, iterations, used };
}

function structured(read: ParsedOutput | undefined): Pick<LoopResult, "structured"> {
  return read && "value" in read ? { structured: read.value } : {};
}

/** Reports the error in an answer to the model. Rejects with `OutputSchemaError` after `MAX_SCHEMA_RETRIES`. */
async function retryForSchema(run: RunContext, progress: Progress, misfit: string): Promise<void> {
  const { conversation, recorder, logger, sessionId: session } = run;
  if (progress.schemaRetries >= MAX_SCHEMA_RETRIES) throw new OutputSchemaError(misfit);
  progress.schemaRetries += 1;
  logger.warn("answer does not match the output schema; retrying", { session, attempt: progress.schemaRetries });
  const word = conversation.compose(userMessage(schemaInstruction(misfit)));
  await recorder.write({ sync: true, add: [word], set: { updatedAt: now() } });
  conversation.add(word);
}

/** A valid answer of the model. */
interface Turn {
  message: Message;
  reason: FinishReason;
  /** Whether the model is done and no steering instruction has arrived. */
  isEnd: boolean;
  /** Whether the answer was cut because the budget ran out. */
  isBudgetExhausted: boolean;
  /** The parsed final answer. Undefined if no output schema is set, or if the answer is not final. */
  read: ParsedOutput | undefined;
}

/** Adds the steering instructions that have arrived to the conversation. */
async function applySteering({ inbox, conversation, recorder, events }: RunContext): Promise<void> {
  const instructions = inbox.takeSteering();
  if (instructions.length === 0) return;
  const add = instructions.map(({ text }) => conversation.compose(userMessage(text)));
  await recorder.write({
    sync: true,
    add,
    consumedInstructions: instructions.map(({ id }) => id),
    set: { updatedAt: now() },
  });
  for (const [i, message] of add.entries()) {
    conversation.add(message);
    events.push({ type: "steered", messageId: message.id, text: instructions[i]?.text ?? "" });
  }
}

/**
 * Executes one model turn: publishes and stores the answer. The write of the final answer also stores the end of the
 * run.
 */
async function turn(run: RunContext, window: ContextWindow, progress: Progress): Promise<Turn> {
  const { conversation, recorder, provider, model, sessionId } = run;
  let growing: Message | undefined;
  /** Id of the interrupted message, until a retry event has reported it. */
  let broken = "";
  let output = "";
  const begin = () => (growing ??= conversation.compose(assistant([]), false));
  const keep = async (parts: Part[]) => {
    if (!growing) return;
    const message: Message = { ...growing, parts };
    growing = undefined;
    await recorder.interrupt(message);
    conversation.add(message);
    broken = message.id;
    if (textOf(message).trim() === "") return;
    output += textOf(message);
    progress.output = output;
  };
  const again = (attempt: number, delayMs: number, error: Error) => {
    const retry = { attempt, delayMs, error, messageId: broken };
    broken = "";
    run.bus.emit("model.retried", { runId: run.id, sessionId, provider: provider.name, model: model.id, ...retry });
    run.events.push({ type: "retry", ...retry });
  };
  const waits = recordRetries((retry) => recorder.recordRetry(retry));
  const hooks: ModelCallHooks = {
    onText: (type, part, text) => {
      const message = begin();
      recorder.append(message, { part, type, text });
      const { agentId } = run;
      const agentName = run.agent.name;
      const messageId = message.id;
      run.events.push(
        type === "text"
          ? { type: "token", agentId, agentName, messageId, text }
          : { type: "token", agentId, agentName, messageId, reasoning: text },
      );
    },
    onInterrupted: async (parts) => {
      await keep(parts);
      return window.request();
    },
    onRetry: (attempt, delayMs, error) => {
      again(attempt, delayMs, error);
      return waits.onRetry(attempt, delayMs, error);
    },
    onRetryStart: waits.onRetryStart,
  };
  let request = await window.request();
  for (let slips = 0; ;) {
    const answer = await callModel(run, "answer", request, run.signal, hooks);
    const failed = "error" in answer;
    const isBudgetExhausted = !failed && answer.isBudgetLimited;
    const slip = failed
      ? toInvalidAnswer(answer.error)
      : isBudgetExhausted
        ? undefined
        : findInvalidAnswer(answer, provider.name, output !== "");
    if (!failed && !slip) {
      const parts = uniqueCalls(answer.parts, conversation.callIds);
      const message: Message = { ...begin(), parts, finished: true };
      const isLast = toolCalls(message).length === 0 && !run.inbox.isSteered && !isBudgetExhausted;
      const fullOutput = output + textOf(message);
      let fault: { error: unknown } | undefined;
      const read = isLast
        ? await run.structure?.read(fullOutput, run.signal).catch((error: unknown) => void (fault = { error }))
        : undefined;
      const isEnd = isLast && !fault && !(read && "misfit" in read);
      const iterations = progress.iterations + 1;
      const answered = { output: fullOutput, finishReason: answer.reason, ...structured(read ?? undefined) };
      const isKept = recorder.run.idempotencyKey !== "" || "structured" in answered;
      const end = isEnd ? finishedRecord("model", isKept ? answered : null) : {};
      const write = (options: Partial<FinalizeOptions>) =>
        recorder.finish(message, { usage: answer.usageWithCost, run: { iterations, ...end }, ...options });
      await (isEnd ? finalizeRun(run, write) : write({}));
      conversation.add(message);
      window.recordAnswer(answer.usage);
      Object.assign(progress, { output: fullOutput, iterations, used: answer.usageWithCost.totalTokens });
      if (fault) throw fault.error;
      return { message, reason: answer.reason, isEnd, isBudgetExhausted, read: read ?? undefined };
    }
    const error = slip ?? (answer as FailedCall).error;
    try {
      if (!failed) await recorder.write({ sync: false, usage: answer.usageWithCost });
      await keep(failed ? answer.parts : toldPartsOf(answer.parts));
    } catch (unstored) {
      // A failing store must not hide the reason of the interruption.
      run.logger.warn("end of interrupted answer was not stored", { session: sessionId, error: unstored });
      throw error;
    }
    if (slip && slips < MAX_INVALID_ANSWERS) {
      slips += 1;
      run.logger.warn("invalid model answer; retrying", {
        provider: provider.name,
        session: sessionId,
        attempt: slips,
        error: slip.message,
      });
      again(slips, 0, slip);
      request = withUserNote(await window.request(), retryInstruction(slip));
    } else if (isTooLong(error) && (await window.compactRejectedPrompt())) request = await window.request();
    else throw error;
  }
}

function isTooLong(error: unknown): boolean {
  return hasCode(error, "provider") && error.kind === "context_length";
}

function userMessage(text: string) {
  return { role: "user" as const, parts: [{ type: "text" as const, text }], toolCallId: "", name: "", failed: false };
}

function assistant(parts: Part[]) {
  return { role: "assistant" as const, parts, toolCallId: "", name: "", failed: false };
}
