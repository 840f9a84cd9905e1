import type { ContextWindow } from "./compaction.js";
import type { Conversation } from "./conversation.js";
import { hasCode } from "./errors.js";
import type { RunResult } from "./events.js";
import { callsOf, textOf, toolMessage } from "./history.js";
import { callModel, uniqueCalls, type Answer } from "./model-call.js";
import type { ModelProvider, Model } from "./ports/model-provider.js";
import type { Message, Part, Usage } from "./ports/session-driver.js";
import type { Recorder } from "./recorder.js";
import { runToolCalls, type ToolRunContext } from "./tool-calls.js";
import { addUsage, NO_USAGE, toUsage } from "./usage.js";

export interface LoopContext extends ToolRunContext {
  provider: ModelProvider;
  model: Model;
  maxIterations: number;
  conversation: Conversation;
  window: ContextWindow;
  recorder: Recorder;
  agentId: string;
  agentName: string;
  /** After the first model call that ended well. */
  onFirstAnswer: () => void;
}

export type LoopResult = Pick<RunResult, "output" | "usage" | "iterations" | "finishReason" | "endedBy"> & {
  used: number;
};

/**
 * Model -> tools -> model, until the model has no more calls or the limit is reached.
 * Rejects with the provider's error or the signal's reason; by then all that was said is stored.
 */
export async function runLoop(context: LoopContext): Promise<LoopResult> {
  let usage: Usage = NO_USAGE;
  let output = "";
  let used = 0;
  for (let iterations = 1; ; iterations += 1) {
    context.signal.throwIfAborted();
    const { message, answer } = await turn(context);
    const spent = toUsage(answer.usage, context.model.prices);
    usage = addUsage(addUsage(usage, spent), context.window.takeSpent());
    used = spent.totalTokens;
    output = textOf(message);
    if (iterations === 1) context.onFirstAnswer();
    const calls = callsOf(message);
    if (calls.length === 0) return { output, usage, iterations, finishReason: answer.reason, endedBy: "model", used };
    await runToolCalls(calls, message.id, context, async ({ call, output: done }) => {
      const failed = done.failed === true;
      const result = toolMessage(call, done.text, failed);
      result.parts.push(...(done.parts ?? []));
      const stored = context.conversation.compose(result);
      await context.recorder.finish(stored);
      context.conversation.add(stored);
      context.emit({
        type: "tool_result",
        messageId: stored.id,
        callId: call.id,
        name: call.name,
        output: done.text,
        failed,
        parts: done.parts ?? [],
        diff: done.diff ?? [],
        locations: done.locations ?? [],
      });
    });
    context.signal.throwIfAborted();
    if (iterations >= context.maxIterations) {
      context.logger.warn("run ended at the iteration limit", { session: context.sessionId, iterations });
      return { output, usage, iterations, finishReason: "length", endedBy: "max_iterations", used };
    }
  }
}

/** One model call, told and stored. */
async function turn(context: LoopContext): Promise<{ message: Message; answer: Answer }> {
  const { conversation, recorder, provider, model } = context;
  let growing: Message | undefined;
  const begin = () => (growing ??= conversation.compose(assistant([]), false));
  const request = await context.window.request();
  const answer = await callModel(
    provider,
    request,
    context.signal,
    {
      onText: (type, part, text) => {
        const message = begin();
        recorder.append(message, { part, type, text });
        const token = {
          type: "token" as const,
          agentId: context.agentId,
          agentName: context.agentName,
          messageId: message.id,
        };
        context.emit(type === "text" ? { ...token, text } : { ...token, reasoning: text });
      },
      onRetry: (attempt, delayMs, error) =>
        context.bus.emit("model.retried", {
          sessionId: context.sessionId,
          provider: provider.name,
          model: model.id,
          attempt,
          delayMs,
          error,
        }),
    },
    context.logger,
  );
  if ("error" in answer) {
    if (growing) await keep(context, { ...growing, parts: answer.parts, finished: true });
    else if (isTooLong(answer.error) && (await context.window.tooLong())) return turn(context);
    throw answer.error;
  }
  const usage = toUsage(answer.usage, model.prices);
  const parts = uniqueCalls(answer.parts, conversation.callIds);
  const message: Message = { ...begin(), parts, finished: true };
  await recorder.finish(message, usage);
  conversation.add(message);
  context.window.answered(answer.usage);
  context.bus.emit("model.called", { sessionId: context.sessionId, provider: provider.name, model: model.id, usage });
  return { message, answer };
}

/** Store what was said before a fault; a store that fails too must not hide that fault. */
async function keep(context: LoopContext, message: Message): Promise<void> {
  try {
    await context.recorder.finish(message);
    context.conversation.add(message);
  } catch (error) {
    context.logger.warn("the end of a broken-off answer was not stored", { session: context.sessionId, error });
  }
}

function isTooLong(error: unknown): boolean {
  return hasCode(error, "provider") && error.kind === "context_length";
}

function assistant(parts: Part[]) {
  return { role: "assistant" as const, parts, toolCallId: "", name: "", failed: false };
}
