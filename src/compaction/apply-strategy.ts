import { abortable } from "../base/abort.js";
import { cutMiddle } from "../base/cut-text.js";
import { createMessage, repairMessages } from "../conversation/messages.js";
import type { Recorder } from "../conversation/recorder.js";
import { nearestEffort } from "../models/efforts.js";
import { BYTES_PER_TOKEN, estimatePrompt, estimateTokens } from "../models/estimate.js";
import { callModel, type ModelCaller } from "../models/model-call.js";
import type { CompactionInput, CompactionStrategy } from "../ports/compaction-strategy.js";
import { hasCode, ProviderError } from "../ports/errors.js";
import type { ModelMessage } from "../ports/message.js";
import type { ModelRequest } from "../ports/model-provider.js";
import { SlidingWindow } from "./sliding-window.js";
import { Summary } from "./summary.js";

/** Limit of a question that the provider rejected as too long, as a share of its first limit. */
const RETRY_SHARE = 0.6;

/** The members of a run that a compaction strategy uses. */
export interface StrategyCaller extends ModelCaller {
  readonly recorder: Pick<Recorder, "onDisk" | "recordRetry" | "write">;
  readonly signal: AbortSignal;
}

/** Input of a strategy, as far as the window sets it. `maxQuestionTokens` is always known. */
type StrategyInput = Required<Pick<CompactionInput, "maxQuestionTokens">> & Omit<CompactionInput, "estimate" | "ask">;

interface CompactionResult {
  /** Name of the strategy that was used. */
  strategy: string;
  messages: ModelMessage[];
}

/**
 * Compacts with the configured strategy, an object or the name of a built-in one; with the sliding window if that
 * strategy fails or returns no messages. Rejects with the signal's reason, and with the strategy's error if the
 * compaction was requested.
 */
export async function applyStrategy(
  caller: StrategyCaller,
  configuredStrategy: string | CompactionStrategy,
  strategyInput: StrategyInput,
): Promise<CompactionResult> {
  const { signal, sessionId, logger } = caller;
  const { instructions, maxQuestionTokens } = strategyInput;
  // A requested compaction may take the time of a summary, which loses less.
  const isSliding = configuredStrategy === "sliding-window" || configuredStrategy instanceof SlidingWindow;
  const builtInStrategy = isSliding && instructions === undefined ? new SlidingWindow() : new Summary();
  const strategy = isSliding || typeof configuredStrategy === "string" ? builtInStrategy : configuredStrategy;
  const input: CompactionInput = {
    ...strategyInput,
    estimate: estimateTokens,
    ask: (question, askSignal) => askModel(caller, question, maxQuestionTokens, askSignal),
  };
  try {
    // A strategy that ignores the signal must not block the run.
    const messages = await abortable((async () => strategy.compact(input, signal))(), signal);
    signal.throwIfAborted();
    if (repairMessages(messages).length > 0) return { strategy: strategy.name, messages };
    throw new Error("the compaction strategy returned no messages");
  } catch (error) {
    signal.throwIfAborted();
    // A requested compaction is not necessary. Failing is better than dropping messages without a summary.
    if (instructions !== undefined) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    logger.warn("compaction strategy failed; dropping older messages instead", {
      session: sessionId,
      strategy: strategy.name,
      error: reason,
    });
  }
  const fallback = new SlidingWindow();
  return { strategy: fallback.name, messages: await fallback.compact(input, signal) };
}

/** Asks the session's model one question, as `CompactionInput.ask`. */
async function askModel(
  caller: StrategyCaller,
  question: Parameters<CompactionInput["ask"]>[0],
  maxQuestionTokens: number,
  signal: AbortSignal,
): Promise<string> {
  const { provider, model, sessionId, recorder } = caller;
  const maxTokens = Math.min(question.maxTokens, model.maxOutput ?? question.maxTokens);
  const createRequest = (text: string): ModelRequest => ({
    model,
    system: question.system,
    messages: [createMessage("user", text)],
    tools: [],
    maxTokens,
    effort: nearestEffort(model.reasoning ? "minimal" : "", model.efforts),
    needsReasoning: false,
    cacheKey: `${sessionId}-compaction`,
  });
  const ask = (limitTokens: number) => {
    const messageTokens = Math.max(0, limitTokens - estimatePrompt(createRequest("")) - maxTokens);
    const request = createRequest(cutMiddle(question.message, messageTokens * BYTES_PER_TOKEN));
    return callModel(caller, "summary", request, signal, { recordRetry: (retry) => recorder.recordRetry(retry) });
  };
  let answer = await ask(maxQuestionTokens);
  // The estimate was too low for this text.
  if ("error" in answer && hasCode(answer.error, "provider") && answer.error.kind === "context_length")
    answer = await ask(Math.floor(maxQuestionTokens * RETRY_SHARE));
  if ("error" in answer) throw answer.error;
  await recorder.write({ sync: false, usage: answer.usageWithCost });
  const text = answer.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  if (text.trim() === "") throw new ProviderError(provider.name, "protocol", "the summary is empty");
  return text;
}
