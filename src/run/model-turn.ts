import { WholePairs } from "../base/whole-pairs.js";
import type { ContextWindow } from "../compaction/context-window.js";
import { CONTINUE_INSTRUCTION, createMessage, textOf, toolCalls } from "../conversation/messages.js";
import { makeCallIdsUnique, toVisibleParts, type Answer } from "../models/answer.js";
import { callModel, type CompleteAnswer, type FailedCall, type ModelCallHooks } from "../models/model-call.js";
import { hasCode, ProviderError } from "../ports/errors.js";
import type { Message, Part } from "../ports/message.js";
import type { FinishReason, ModelRequest } from "../ports/model-provider.js";
import { toOfferedCalls } from "./calls/call-dialects.js";
import type { RunContext } from "./context/run-context.js";
import type { ParsedOutput } from "./context/structured-output.js";
import { storeFinalAnswer } from "./end-run.js";

// An invalid answer is complete but unusable, through an error of the model. Repeating the same request usually gives
// the same answer, so the retry includes an instruction.

/** Maximum retries after invalid answers within one turn. */
const MAX_INVALID_ANSWER_RETRIES = 3;

/** Progress of a run. Also correct if the run ends in the middle of a turn. */
export interface RunProgress {
  output: string;
  /** Number of completed model answers. */
  iterations: number;
  /** Total tokens of the last model call. */
  usedTokens: number;
  schemaRetries: number;
}

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
  #wholePairs = new WholePairs();

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
    return {
      onText: (type, part, text) => this.#append(type, part, text),
      onInterrupted: async (parts) => {
        await this.#interrupt(parts);
        return this.#window.buildRequest();
      },
      onRetry: (attempt, delayMs, error) => this.#reportRetry(attempt, delayMs, error),
      recordRetry: (retry) => recorder.recordRetry(retry),
    };
  }

  /** Begins a message with the first text, or with the complete answer if no text was streamed. */
  #begin(): Message {
    return (this.#message ??= this.#run.session.conversation.compose(createMessage("assistant", []), false));
  }

  #append(type: "text" | "reasoning", part: number, piece: string): void {
    const text = this.#wholePairs.add(`${type} ${part}`, piece);
    if (text === "") return;
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
    this.#wholePairs = new WholePairs();
    if (!this.#message) return;
    const message: Message = { ...this.#message, parts };
    this.#message = undefined;
    // A cancelled run stores its end next, which is on disk before the answer to the client.
    await this.#run.session.recorder.interrupt(message, !this.#run.signal.aborted);
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
    const sentParts = makeCallIdsUnique(answer.parts, conversation.callIds);
    const hasCalls = sentParts.some(({ type }) => type === "tool_call");
    const parts = hasCalls ? await toOfferedCalls(sentParts, this.#run.tools.list) : sentParts;
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
    this.#reportPrompt(message.id, this.#window.recordAnswer(answer.usage));
    Object.assign(this.#progress, { output, iterations, usedTokens: usage.totalTokens });
    if (failure) throw failure.error;
    return { message, finishReason, isEnd, isBudgetExhausted, parsedOutput };
  }

  /** Stores the provider's count of the conversation up to an answer; undefined: no count is valid. */
  #reportPrompt(messageId: string, tokens: number | undefined): void {
    const { agent, info, session, model } = this.#run;
    const report = tokens !== undefined && {
      ...{ tokens, messageId },
      sessionId: session.conversation.session.id,
      provider: model.provider.name,
      model: model.model.id,
    };
    agent.caches.promptReports.set(info.sessionId, report || undefined);
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
    if (!isTooLong) throw error;
    const canRetry = await this.#window.compactRejectedPrompt(error.contextTokens);
    const { rejectedPrompts } = this.#window;
    if (!canRetry) throw withNote(error, rejectedPrompts?.describe() ?? "");
    this.#reportRetry(rejectedPrompts?.count ?? 0, 0, error);
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

/** Returns the error of an invalid answer that a provider reported; undefined for any other error. */
function toInvalidAnswerError(error: unknown): ProviderError | undefined {
  return hasCode(error, "provider") && error.kind === "malformed_answer" ? error : undefined;
}

/**
 * Returns the error of a complete but invalid answer; undefined if the answer is valid. `hasOutput`: whether the answer
 * continues an interrupted text; such an answer may be empty.
 */
function findAnswerError({ parts, reason }: Answer, provider: string, hasOutput: boolean): ProviderError | undefined {
  const createError = (problem: string, advice: string) =>
    new ProviderError(provider, "malformed_answer", problem, { hint: `${describeUnusable(problem)} ${advice}` });
  const message = createMessage("assistant", parts);
  const calls = toolCalls(message);
  if (calls.some((call) => call.name.trim() === ""))
    return createError("the model made a tool call without a name", "Repeat the call with the name of the tool.");
  if (calls.length > 0) return undefined;
  if (reason === "tool_calls")
    return createError("the model announced a tool call but made none", "Make the call, or answer without one.");
  if (hasOutput || textOf(message).trim() !== "") return undefined;
  // The provider withheld the answer. The run reports the finish reason, and a retry would not help.
  if (reason === "content_filter") return undefined;
  const hasReasoning = parts.some((part) => part.type === "reasoning" && part.text.trim() !== "");
  if (reason === "length")
    return createError(
      `the model reached the output limit before ${hasReasoning ? "the end of its reasoning" : "any output"}`,
      "Think less, and answer or call a tool.",
    );
  const hint = "Continue with the task; when it is done, say so in one sentence.";
  return createError(
    hasReasoning ? "the model's answer contained only reasoning" : "the model's answer was empty",
    hint,
  );
}

/** Adds a note to an error, in front of the provider's message, which may be truncated. */
function withNote(error: ProviderError, note: string): ProviderError {
  if (note === "") return error;
  const { provider, kind, status } = error;
  return new ProviderError(provider, kind, `${note}: ${reasonOf(error)}`, { status, cause: error });
}

function createRetryInstruction(error: ProviderError): string {
  return `[${error.hint ?? `${describeUnusable(reasonOf(error))} Try again, in another way.`}]`;
}

/** The message after the provider's name and the error kind. */
function reasonOf({ message }: ProviderError): string {
  return message.replace(/^[^:]*: [^:]*: /, "");
}

function describeUnusable(reason: string): string {
  return `Your last answer could not be used: ${reason}.`;
}

/** Appends a note to the request. Roles keep alternating, as all providers require. */
function withUserNote(request: ModelRequest, note: string): ModelRequest {
  const messages = [...request.messages];
  const lastMessage = messages.at(-1);
  if (lastMessage?.role === "user" && textOf(lastMessage) === CONTINUE_INSTRUCTION) {
    messages[messages.length - 1] = { ...lastMessage, parts: [...lastMessage.parts, { type: "text", text: note }] };
  } else {
    // The assistant message stands for the invalid answer. Some providers reject a user message directly after a tool
    // result or another user message.
    messages.push(createMessage("assistant", "(no answer)"), createMessage("user", note));
  }
  return { ...request, messages };
}
