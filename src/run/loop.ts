import type { ContextWindow } from "../compaction/context-window.js";
import type { Conversation } from "../conversation/conversation.js";
import { hasCode } from "../ports/errors.js";
import type { RunResult } from "../ports/run.js";
import { callsOf, textOf, toolMessage } from "../conversation/messages.js";
import { callModel, toldOf, uniqueCalls, type BrokenOff, type ModelCallHooks } from "../models/model-call.js";
import type { FinishReason, Model, ModelProvider, ModelUsage } from "../ports/model-provider.js";
import type { Message, Part } from "../ports/message.js";
import type { Usage } from "../ports/usage.js";
import type { Recorder } from "../conversation/recorder.js";
import { RepeatedCalls } from "./repeated-calls.js";
import { slipIn, slipOf, SLIPS, withWord, wordFor } from "./slips.js";
import { runToolCalls, type ToolRunContext } from "./tool-calls.js";
import { withState } from "./tool-state.js";
import { addUsage, NO_USAGE, toUsage } from "../models/usage.js";

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
 * Rejects with the provider's error, `RepeatedCallsError`, or the signal's reason; by then all that was said is stored.
 */
export async function runLoop(context: LoopContext): Promise<LoopResult> {
  const repeated = new RepeatedCalls();
  let usage: Usage = NO_USAGE;
  for (let iterations = 1; ; iterations += 1) {
    context.signal.throwIfAborted();
    const { message, output, reason, spent, used } = await turn(context);
    usage = addUsage(addUsage(usage, spent), context.window.takeSpent());
    if (iterations === 1) context.onFirstAnswer();
    const calls = callsOf(message);
    if (calls.length === 0) return { output, usage, iterations, finishReason: reason, endedBy: "model", used };
    repeated.nextAnswer();
    await runToolCalls(calls, message.id, context, async ({ call, output: done, state }) => {
      const failed = done.failed === true;
      const text = done.text + repeated.note(call, done.text);
      const result = withState(toolMessage(call, text, failed), state);
      result.parts.push(...(done.parts ?? []));
      const stored = context.conversation.compose(result);
      await context.recorder.finish(stored);
      context.conversation.add(stored);
      context.emit({
        type: "tool_result",
        messageId: stored.id,
        callId: call.id,
        name: call.name,
        output: text,
        failed,
        parts: done.parts ?? [],
        diff: done.diff ?? [],
        locations: done.locations ?? [],
      });
    });
    context.signal.throwIfAborted();
    repeated.check();
    if (iterations >= context.maxIterations) {
      context.logger.warn("run ended at the iteration limit", { session: context.sessionId, iterations });
      return { output, usage, iterations, finishReason: "length", endedBy: "max_iterations", used };
    }
  }
}

/** An answer of the model that is of use, and what it took to get it. */
interface Turn {
  message: Message;
  /** Its text, with that of the parts that broke off before. */
  output: string;
  reason: FinishReason;
  /** Of all calls of the turn. */
  spent: Usage;
  /** Tokens of the last call. */
  used: number;
}

/** One turn of the model, told and stored. */
async function turn(context: LoopContext): Promise<Turn> {
  const { conversation, recorder, provider, model, window, sessionId } = context;
  let growing: Message | undefined;
  /** The message that broke off, until that was told. */
  let broken = "";
  let output = "";
  let spent: Usage = NO_USAGE;
  const begin = () => (growing ??= conversation.compose(assistant([]), false));
  const keep = async (parts: Part[]) => {
    if (!growing) return;
    const message: Message = { ...growing, parts };
    growing = undefined;
    await recorder.breakOff(message);
    conversation.add(message);
    broken = message.id;
    if (textOf(message).trim() !== "") output += textOf(message);
  };
  const pay = (usage: ModelUsage): Usage => {
    const paid = toUsage(usage, model.prices);
    spent = addUsage(spent, paid);
    const called = { sessionId, provider: provider.name, model: model.id, usage: paid };
    context.bus.emit("model.called", { ...called, purpose: "answer" });
    return paid;
  };
  const hooks: ModelCallHooks = {
    onText: (type, part, text) => {
      const message = begin();
      recorder.append(message, { part, type, text });
      const { agentId, agentName } = context;
      const token = { type: "token" as const, agentId, agentName, messageId: message.id };
      context.emit(type === "text" ? { ...token, text } : { ...token, reasoning: text });
    },
    onBrokenOff: async (parts) => {
      await keep(parts);
      return window.request();
    },
    onRetry: (attempt, delayMs, error) => {
      const again = { attempt, delayMs, error, messageId: broken };
      broken = "";
      context.bus.emit("model.retried", { sessionId, provider: provider.name, model: model.id, ...again });
      context.emit({ type: "retry", ...again });
    },
  };
  let request = await window.request();
  for (let slips = 0; ;) {
    const answer = await callModel(provider, request, context.signal, hooks, context.logger);
    const failed = "error" in answer;
    const slip = failed ? slipOf(answer.error) : slipIn(answer, provider.name, output !== "");
    if (!failed && !slip) {
      const paid = pay(answer.usage);
      const parts = uniqueCalls(answer.parts, conversation.callIds);
      const message: Message = { ...begin(), parts, finished: true };
      await recorder.finish(message, paid);
      conversation.add(message);
      window.answered(answer.usage);
      output += textOf(message);
      return { message, output, reason: answer.reason, spent, used: paid.totalTokens };
    }
    const error = slip ?? (answer as BrokenOff).error;
    try {
      if (!failed) await recorder.write({ sync: false, usage: pay(answer.usage) });
      await keep(failed ? answer.parts : toldOf(answer.parts));
    } catch (unstored) {
      // A store that fails too must not hide why it broke off.
      context.logger.warn("the end of a broken-off answer was not stored", { session: sessionId, error: unstored });
      throw error;
    }
    if (slip && slips < SLIPS) {
      slips += 1;
      context.logger.warn("an answer was of no use; asking again", {
        provider: provider.name,
        session: sessionId,
        attempt: slips,
        error: slip.message,
      });
      hooks.onRetry(slips, 0, slip);
      request = withWord(await window.request(), wordFor(slip));
    } else if (isTooLong(error) && (await window.tooLong())) request = await window.request();
    else throw error;
  }
}

function isTooLong(error: unknown): boolean {
  return hasCode(error, "provider") && error.kind === "context_length";
}

function assistant(parts: Part[]) {
  return { role: "assistant" as const, parts, toolCallId: "", name: "", failed: false };
}
