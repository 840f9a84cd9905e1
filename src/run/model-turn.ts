import type { ContextWindow } from "../compaction/context-window.js";
import { createMessage, textOf, toolCalls } from "../conversation/messages.js";
import { makeCallIdsUnique, toVisibleParts } from "../models/answer.js";
import { callModel, type CompleteAnswer, type FailedCall, type ModelCallHooks } from "../models/model-call.js";
import { createRetryHooks } from "../models/retry-hooks.js";
import { hasCode, type ProviderError } from "../ports/errors.js";
import type { Message, Part } from "../ports/message.js";
import type { FinishReason, ModelRequest } from "../ports/model-provider.js";
import type { RunContext } from "./context/run-context.js";
import type { ParsedOutput } from "./context/structured-output.js";
import { storeFinalAnswer } from "./end-run.js";
import {
  createRetryInstruction,
  findAnswerError,
  MAX_INVALID_ANSWER_RETRIES,
  toInvalidAnswerError,
  withUserNote,
} from "./invalid-answer.js";

/** Progress of a run. Also correct if the run ends in the middle of a turn. */
export interface RunProgress {
  output: string;
  /** Number of completed model answers. */
  iterations: number;
  /** Total tokens of the last model call. */
  usedTokens: number;
  /** Number of retries because an answer did not match the output schema. */
  schemaRetries: number;
}

/** The result of one model turn: a valid answer. */
export interface TurnResult {
  message: Message;
  finishReason: FinishReason;
  /** Whether the model is done and no steering instruction has arrived. The end of the run is then stored. */
  isEnd: boolean;
  /** Whether the answer was cut because the budget ran out. */
  isBudgetExhausted: boolean;
  /** The parsed final answer. Undefined if no output schema is set, or if the answer is not final. */
  parsedOutput: ParsedOutput | undefined;
}

/**
 * One turn of the model: its answer is published and stored while it arrives. A turn has several messages if the answer
 * is interrupted: each interrupted message is kept, and the next one continues it.
 */
export class ModelTurn {
  readonly #run: RunContext;
  readonly #window: ContextWindow;
  readonly #progress: RunProgress;
  /** The message that is arriving. */
  #message: Message | undefined;
  /** Text of the interrupted messages. */
  #output = "";
  /** Id of the interrupted message, until a retry event has reported it; then `""`. */
  #interruptedId = "";
  #invalidAnswers = 0;

  constructor(run: RunContext, window: ContextWindow, progress: RunProgress) {
    this.#run = run;
    this.#window = window;
    this.#progress = progress;
  }

  /**
   * Asks the model until it gives a valid answer. Rejects with the provider's error, or with the signal's reason; the
   * text received until then is stored.
   */
  async ask(): Promise<TurnResult> {
    const { caller, signal } = this.#run;
    const providerName = caller.provider.name;
    const hooks = this.#createHooks();
    for (let request = await this.#window.buildRequest(); ;) {
      const answer = await callModel(caller, "answer", request, signal, hooks);
      if ("error" in answer) request = await this.#retry(answer, toInvalidAnswerError(answer.error));
      else {
        const { isBudgetLimited } = answer;
        const answerError = isBudgetLimited ? undefined : findAnswerError(answer, providerName, this.#output !== "");
        if (!answerError) return this.#finish(answer);
        request = await this.#retry(answer, answerError);
      }
    }
  }

  #createHooks(): ModelCallHooks {
    const { recorder } = this.#run.session;
    // Created with each retry, because most turns have none.
    const createStoringHooks = () => createRetryHooks((retry) => recorder.recordRetry(retry));
    return {
      onText: (type, part, text) => this.#append(type, part, text),
      onInterrupted: async (parts) => {
        await this.#interrupt(parts);
        return this.#window.buildRequest();
      },
      onRetry: (attempt, delayMs, error) => {
        this.#reportRetry(attempt, delayMs, error);
        return createStoringHooks().onRetry(attempt, delayMs, error);
      },
      onRetryStart: () => createStoringHooks().onRetryStart(),
    };
  }

  /** Begins a message with the first text, or with the complete answer if no text was streamed. */
  #begin(): Message {
    return (this.#message ??= this.#run.session.conversation.compose(createMessage("assistant", []), false));
  }

  #append(type: "text" | "reasoning", part: number, text: string): void {
    const message = this.#begin();
    const { agent, info, session, channels } = this.#run;
    session.recorder.append(message, { part, type, text });
    const { agentId } = info;
    const { name: agentName } = agent;
    const messageId = message.id;
    channels.events.push(
      type === "text"
        ? { type: "token", agentId, agentName, messageId, text }
        : { type: "token", agentId, agentName, messageId, reasoning: text },
    );
  }

  /** Keeps the parts of a message that will not be completed. */
  async #interrupt(parts: Part[]): Promise<void> {
    if (!this.#message) return;
    const message: Message = { ...this.#message, parts };
    this.#message = undefined;
    await this.#run.session.recorder.interrupt(message);
    this.#run.session.conversation.add(message);
    this.#interruptedId = message.id;
    if (textOf(message).trim() === "") return;
    this.#output += textOf(message);
    this.#progress.output = this.#output;
  }

  /** Stores a valid answer. The write of the final answer also stores the end of the run. */
  async #finish(answer: CompleteAnswer): Promise<TurnResult> {
    const { session, channels } = this.#run;
    const { conversation, recorder } = session;
    const { usageWithCost: usage, reason: finishReason, isBudgetLimited: isBudgetExhausted } = answer;
    const parts = makeCallIdsUnique(answer.parts, conversation.callIds);
    const message: Message = { ...this.#begin(), parts, finished: true };
    const isLast = toolCalls(message).length === 0 && !channels.inbox.hasSteering && !isBudgetExhausted;
    const output = this.#output + textOf(message);
    const { parsedOutput, failure } = isLast ? await this.#parse(output) : {};
    const isEnd = isLast && !failure && !(parsedOutput && "mismatch" in parsedOutput);
    const iterations = this.#progress.iterations + 1;
    const structured = parsedOutput && "value" in parsedOutput ? { structured: parsedOutput.value } : {};
    await (isEnd
      ? storeFinalAnswer(this.#run, message, usage, iterations, { output, finishReason, ...structured })
      : recorder.finish(message, { usage, run: { iterations } }));
    conversation.add(message);
    this.#window.recordAnswer(answer.usage);
    Object.assign(this.#progress, { output, iterations, usedTokens: usage.totalTokens });
    if (failure) throw failure.error;
    return { message, finishReason, isEnd, isBudgetExhausted, parsedOutput };
  }

  /** Checks a final answer against the output schema. `failure`: why that was not possible. Never rejects. */
  async #parse(output: string): Promise<{ parsedOutput?: ParsedOutput | undefined; failure?: { error: unknown } }> {
    try {
      return { parsedOutput: await this.#run.model.structuredOutput?.read(output, this.#run.signal) };
    } catch (error) {
      return { failure: { error } };
    }
  }

  /**
   * Keeps what arrived of a failed or invalid answer. Resolves with the request for another answer. Rejects with the
   * error of the answer if another request would not help. `answerError`: set if the answer is invalid.
   */
  async #retry(answer: CompleteAnswer | FailedCall, answerError: ProviderError | undefined): Promise<ModelRequest> {
    const { session, model, info, channels } = this.#run;
    const hasFailed = "error" in answer;
    const error = answerError ?? (hasFailed ? answer.error : undefined);
    try {
      if (!hasFailed) await session.recorder.write({ sync: false, usage: answer.usageWithCost });
      await this.#interrupt(hasFailed ? answer.parts : toVisibleParts(answer.parts));
    } catch (writeError) {
      // A failing store must not hide the reason of the interruption.
      const fields = { session: info.sessionId, error: writeError };
      channels.logger.warn("end of interrupted answer was not stored", fields);
      throw error;
    }
    if (answerError && this.#invalidAnswers < MAX_INVALID_ANSWER_RETRIES) {
      this.#invalidAnswers += 1;
      channels.logger.warn("invalid model answer; retrying", {
        provider: model.provider.name,
        session: info.sessionId,
        attempt: this.#invalidAnswers,
        error: answerError.message,
      });
      this.#reportRetry(this.#invalidAnswers, 0, answerError);
      return withUserNote(await this.#window.buildRequest(), createRetryInstruction(answerError));
    }
    const isTooLong = hasCode(error, "provider") && error.kind === "context_length";
    if (!isTooLong || !(await this.#window.compactRejectedPrompt())) throw error;
    return this.#window.buildRequest();
  }

  #reportRetry(attempt: number, delayMs: number, error: Error): void {
    const { info, model, channels } = this.#run;
    const retry = { attempt, delayMs, error, messageId: this.#interruptedId };
    this.#interruptedId = "";
    const runFields = { runId: info.id, sessionId: info.sessionId };
    channels.bus.emit("model.retried", {
      ...runFields,
      provider: model.provider.name,
      model: model.model.id,
      ...retry,
    });
    channels.events.push({ type: "retry", ...retry });
  }
}
