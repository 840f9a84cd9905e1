import { openWindow, type ContextWindow } from "../compaction/context-window.js";
import { hasCode, OutputSchemaError } from "../ports/errors.js";
import type { RunResult } from "../ports/run.js";
import { now } from "../base/ids.js";
import { toolCalls, textOf, createToolMessage } from "../conversation/messages.js";
import { withState } from "../conversation/stored-state.js";
import { toVisibleParts, makeCallIdsUnique } from "../models/answer.js";
import { callModel, type FailedCall, type ModelCallHooks } from "../models/model-call.js";
import { createRetryHooks } from "../models/retry-hooks.js";
import type { FinishReason } from "../ports/model-provider.js";
import type { Message, Part } from "../ports/message.js";
import { RepeatedCalls } from "./calls/repeated-calls.js";
import {
  MAX_SCHEMA_RETRIES,
  findAnswerError,
  toInvalidAnswerError,
  MAX_INVALID_ANSWER_RETRIES,
  withUserNote,
  createSchemaInstruction,
  createRetryInstruction,
} from "./invalid-answer.js";
import { finalizeRun, type FinalizeOptions } from "./finalize-run.js";
import { findReachedLimit } from "./budget/limits.js";
import type { RunContext } from "./context/run-context.js";
import { createFinishedFields } from "../sessions/run-record.js";
import type { ParsedOutput } from "./context/structured-output.js";
import { generateTitle } from "./title.js";
import { runToolCalls } from "./calls/execute.js";

/** Result of the loop. `usedTokens`: total tokens of the last model call. */
export type LoopResult = Pick<RunResult, "output" | "structured" | "iterations" | "finishReason" | "endedBy"> & {
  usedTokens: number;
};

/** Progress of a run. Also correct if the run ends in the middle of a turn. */
interface Progress {
  output: string;
  /** Number of completed model answers. */
  iterations: number;
  /** Total tokens of the last model call. */
  usedTokens: number;
  /** Number of retries because an answer did not match the output schema. */
  schemaRetries: number;
}

/**
 * Runs the agent loop: model, tools, model, until the model makes no more calls or a limit is reached. Rejects with the
 * provider's error, `RepeatedCallsError`, or the signal's reason. All messages are stored before it rejects.
 */
export async function runLoop(run: RunContext): Promise<LoopResult> {
  const progress: Progress = { output: "", iterations: 0, usedTokens: 0, schemaRetries: 0 };
  try {
    return await runTurns(run, progress);
  } catch (error) {
    // The budget does not cover another call, or the time limit is reached. Every other error is a failure of the run.
    if (!hasCode(error, "budget")) throw error;
    return endAtLimit(run, progress, "budget");
  }
}

async function runTurns(run: RunContext, progress: Progress): Promise<LoopResult> {
  const window = openWindow(run.agent.compaction, run.caller);
  const repeatedCalls = new RepeatedCalls();
  for (;;) {
    run.signal.throwIfAborted();
    await applySteering(run);
    const { message, finishReason, isEnd, isBudgetExhausted, parsedOutput } = await runTurn(run, window, progress);
    if (isEnd) return { ...toLoopResult(progress), ...toStructuredField(parsedOutput), finishReason, endedBy: "model" };
    if (parsedOutput && "mismatch" in parsedOutput) await retryForSchema(run, progress, parsedOutput.mismatch);
    const calls = toolCalls(message);
    if (isBudgetExhausted && calls.length === 0) return endAtLimit(run, progress, "budget");
    // The title is generated in parallel with the calls; without calls, at the end of the run.
    if (progress.iterations === 1) generateTitle(run);
    repeatedCalls.startAnswer();
    await runToolCalls(calls, message.id, run, async ({ call, output: toolOutput, refused, state, shown }) => {
      const hasFailed = toolOutput.failed === true;
      const text = toolOutput.text + repeatedCalls.recordCall(call, toolOutput.text);
      const result = withState(createToolMessage(call, text, hasFailed), state);
      result.parts.push(...(toolOutput.parts ?? []));
      const resultMessage = { ...run.session.conversation.compose(result), ...(shown && { shown }) };
      await run.session.recorder.finish(resultMessage);
      run.session.conversation.add(resultMessage);
      run.channels.events.push({
        type: "tool_result",
        messageId: resultMessage.id,
        callId: call.id,
        name: call.name,
        output: text,
        failed: hasFailed,
        ...(refused && { refused }),
        parts: toolOutput.parts ?? [],
        diff: toolOutput.diff ?? [],
        locations: toolOutput.locations ?? [],
      });
    });
    run.signal.throwIfAborted();
    repeatedCalls.throwIfLooping();
    const endedBy = findReachedLimit(run.budget.limits, progress);
    if (endedBy) return endAtLimit(run, progress, endedBy);
  }
}

function endAtLimit(run: RunContext, progress: Progress, endedBy: Exclude<LoopResult["endedBy"], "model">): LoopResult {
  const { recorder } = run.session;
  const usageField = endedBy === "budget" ? { usage: recorder.run.usage } : {};
  run.channels.logger.warn("run ended at a limit", {
    session: run.info.sessionId,
    iterations: progress.iterations,
    endedBy,
    ...usageField,
  });
  return { ...toLoopResult(progress), finishReason: "length", endedBy };
}

function toLoopResult({
  output,
  iterations,
  usedTokens,
}: Progress): Pick<LoopResult, "output" | "iterations" | "usedTokens"> {
  return { output, iterations, usedTokens };
}

function toStructuredField(parsedOutput: ParsedOutput | undefined): Pick<LoopResult, "structured"> {
  return parsedOutput && "value" in parsedOutput ? { structured: parsedOutput.value } : {};
}

/**
 * Adds a message for the model with the reason why its answer is invalid. Rejects with `OutputSchemaError` after
 * `MAX_SCHEMA_RETRIES`.
 */
async function retryForSchema(run: RunContext, progress: Progress, mismatch: string): Promise<void> {
  const { conversation, recorder } = run.session;
  if (progress.schemaRetries >= MAX_SCHEMA_RETRIES) throw new OutputSchemaError(mismatch);
  progress.schemaRetries += 1;
  run.channels.logger.warn("answer does not match the output schema; retrying", {
    session: run.info.sessionId,
    attempt: progress.schemaRetries,
  });
  const instruction = conversation.compose(createUserMessage(createSchemaInstruction(mismatch)));
  await recorder.write({ sync: true, add: [instruction], set: { updatedAt: now() } });
  conversation.add(instruction);
}

/** The result of one model turn: a valid answer. */
interface TurnResult {
  message: Message;
  finishReason: FinishReason;
  /** Whether the model is done and no steering instruction has arrived. */
  isEnd: boolean;
  /** Whether the answer was cut because the budget ran out. */
  isBudgetExhausted: boolean;
  /** The parsed final answer. Undefined if no output schema is set, or if the answer is not final. */
  parsedOutput: ParsedOutput | undefined;
}

/** Adds the steering instructions that have arrived to the conversation. */
async function applySteering({
  session: { conversation, recorder },
  channels: { inbox, events },
}: RunContext): Promise<void> {
  const instructions = inbox.takeSteering();
  if (instructions.length === 0) return;
  const messages = instructions.map(({ text }) => conversation.compose(createUserMessage(text)));
  await recorder.write({
    sync: true,
    add: messages,
    consumedInstructions: instructions.map(({ id }) => id),
    set: { updatedAt: now() },
  });
  for (const [i, message] of messages.entries()) {
    conversation.add(message);
    events.push({ type: "steered", messageId: message.id, text: instructions[i]?.text ?? "" });
  }
}

/**
 * Executes one model turn: publishes and stores the answer. The write of the final answer also stores the end of the
 * run.
 */
async function runTurn(run: RunContext, window: ContextWindow, progress: Progress): Promise<TurnResult> {
  const { id: runId, sessionId, agentId } = run.info;
  const { conversation, recorder } = run.session;
  const { provider, model, structuredOutput } = run.model;
  let partialMessage: Message | undefined;
  /** Id of the interrupted message, until a retry event has reported it; then `""`. */
  let interruptedId = "";
  let output = "";
  const beginMessage = () => (partialMessage ??= conversation.compose(createAssistantMessage([]), false));
  const keepInterrupted = async (parts: Part[]) => {
    if (!partialMessage) return;
    const message: Message = { ...partialMessage, parts };
    partialMessage = undefined;
    await recorder.interrupt(message);
    conversation.add(message);
    interruptedId = message.id;
    if (textOf(message).trim() === "") return;
    output += textOf(message);
    progress.output = output;
  };
  const reportRetry = (attempt: number, delayMs: number, error: Error) => {
    const retry = { attempt, delayMs, error, messageId: interruptedId };
    interruptedId = "";
    run.channels.bus.emit("model.retried", { runId, sessionId, provider: provider.name, model: model.id, ...retry });
    run.channels.events.push({ type: "retry", ...retry });
  };
  const retryHooks = createRetryHooks((retry) => recorder.recordRetry(retry));
  const hooks: ModelCallHooks = {
    onText: (type, part, text) => {
      const message = beginMessage();
      recorder.append(message, { part, type, text });
      const agentName = run.agent.name;
      const messageId = message.id;
      run.channels.events.push(
        type === "text"
          ? { type: "token", agentId, agentName, messageId, text }
          : { type: "token", agentId, agentName, messageId, reasoning: text },
      );
    },
    onInterrupted: async (parts) => {
      await keepInterrupted(parts);
      return window.buildRequest();
    },
    onRetry: (attempt, delayMs, error) => {
      reportRetry(attempt, delayMs, error);
      return retryHooks.onRetry(attempt, delayMs, error);
    },
    onRetryStart: retryHooks.onRetryStart,
  };
  let request = await window.buildRequest();
  for (let invalidAnswerCount = 0; ;) {
    const answer = await callModel(run.caller, "answer", request, run.signal, hooks);
    const hasFailed = "error" in answer;
    const isBudgetExhausted = !hasFailed && answer.isBudgetLimited;
    const answerError = hasFailed
      ? toInvalidAnswerError(answer.error)
      : isBudgetExhausted
        ? undefined
        : findAnswerError(answer, provider.name, output !== "");
    if (!hasFailed && !answerError) {
      const parts = makeCallIdsUnique(answer.parts, conversation.callIds);
      const message: Message = { ...beginMessage(), parts, finished: true };
      const isLast = toolCalls(message).length === 0 && !run.channels.inbox.hasSteering && !isBudgetExhausted;
      const fullOutput = output + textOf(message);
      let readFailure: { error: unknown } | undefined;
      const parsedOutput = isLast
        ? await structuredOutput?.read(fullOutput, run.signal).catch((error: unknown) => void (readFailure = { error }))
        : undefined;
      const isEnd = isLast && !readFailure && !(parsedOutput && "mismatch" in parsedOutput);
      const iterations = progress.iterations + 1;
      const runAnswer = {
        output: fullOutput,
        finishReason: answer.reason,
        ...toStructuredField(parsedOutput ?? undefined),
      };
      const storesAnswer = recorder.run.idempotencyKey !== "" || "structured" in runAnswer;
      const end = isEnd ? createFinishedFields("model", storesAnswer ? runAnswer : null) : {};
      const write = (options: Partial<FinalizeOptions>) =>
        recorder.finish(message, { usage: answer.usageWithCost, run: { iterations, ...end }, ...options });
      await (isEnd ? finalizeRun(run, write) : write({}));
      conversation.add(message);
      window.recordAnswer(answer.usage);
      Object.assign(progress, { output: fullOutput, iterations, usedTokens: answer.usageWithCost.totalTokens });
      if (readFailure) throw readFailure.error;
      return {
        message,
        finishReason: answer.reason,
        isEnd,
        isBudgetExhausted,
        parsedOutput: parsedOutput ?? undefined,
      };
    }
    const error = answerError ?? (answer as FailedCall).error;
    try {
      if (!hasFailed) await recorder.write({ sync: false, usage: answer.usageWithCost });
      await keepInterrupted(hasFailed ? answer.parts : toVisibleParts(answer.parts));
    } catch (writeError) {
      // A failing store must not hide the reason of the interruption.
      run.channels.logger.warn("end of interrupted answer was not stored", { session: sessionId, error: writeError });
      throw error;
    }
    if (answerError && invalidAnswerCount < MAX_INVALID_ANSWER_RETRIES) {
      invalidAnswerCount += 1;
      run.channels.logger.warn("invalid model answer; retrying", {
        provider: provider.name,
        session: sessionId,
        attempt: invalidAnswerCount,
        error: answerError.message,
      });
      reportRetry(invalidAnswerCount, 0, answerError);
      request = withUserNote(await window.buildRequest(), createRetryInstruction(answerError));
    } else if (isContextOverflow(error) && (await window.compactRejectedPrompt()))
      request = await window.buildRequest();
    else throw error;
  }
}

function isContextOverflow(error: unknown): boolean {
  return hasCode(error, "provider") && error.kind === "context_length";
}

function createUserMessage(text: string) {
  return { role: "user" as const, parts: [{ type: "text" as const, text }], toolCallId: "", name: "", failed: false };
}

function createAssistantMessage(parts: Part[]) {
  return { role: "assistant" as const, parts, toolCallId: "", name: "", failed: false };
}
