import { repairMessages } from "../conversation/messages.js";
import { BYTES_PER_TOKEN, estimateTokens } from "../models/estimate.js";
import type { CompactionStrategy } from "../ports/compaction-strategy.js";
import { ProviderError } from "../ports/errors.js";
import type { Message, ModelMessage } from "../ports/message.js";
import { applyStrategy, type StrategyCaller } from "./apply-strategy.js";
import { attachState, detachState, NO_WORK, type SessionWork } from "./attached-state.js";
import { fitMessages } from "./fit.js";

/** Share of the tokens for messages that a compaction may fill, so that the next compaction is not needed soon. */
const TARGET_SHARE = 0.6;
/** Maximum share of the tokens for messages that the attached session state may take. */
const MAX_STATE_SHARE = 0.25;
/** Maximum tokens of attached texts: files, skills and instructions. Also their maximum share. */
const MAX_TEXT_TOKENS = 25_000;
const MAX_TEXT_SHARE = 0.2;
/** Share up to which attached texts may fill the tokens for messages, or those of the compacted messages. */
const FILLED_SHARE = 0.75;

/** The members of a run that compact its conversation. */
export interface ViewCaller extends StrategyCaller {
  /** State that tools store for the session. A compaction attaches this state again. */
  readonly state: ReadonlyMap<string, unknown>;
  /**
   * Reads what the session works with and `view` does not show. The texts have at most `maxBytes` bytes. Rejects with
   * the signal's reason.
   */
  readonly readWork: (view: readonly ModelMessage[], maxBytes: number) => Promise<SessionWork>;
}

export interface ViewRequest {
  /** The messages that the model sees now. */
  readonly messages: readonly Message[];
  readonly strategy: string | CompactionStrategy;
  readonly keepMessages: number;
  /** Size of the context window, in tokens. */
  readonly windowTokens: number;
  /** Maximum tokens of a question to the model, with its answer. */
  readonly maxQuestionTokens: number;
  /** Maximum tokens of the messages in a prompt. */
  readonly messageTokens: number;
  /** Maximum tokens of the strategy's result. */
  readonly maxResultTokens: number;
  /** The user's words on what to keep. Undefined: no user requested the compaction. */
  readonly instructions: string | undefined;
}

export interface CompactedView {
  /** Name of the strategy that was used. */
  readonly strategy: string;
  readonly messages: readonly ModelMessage[];
  /** Whether a follow-up session would save nothing. */
  readonly isUseless: boolean;
}

/**
 * Compacts a conversation and attaches the state of the session. Rejects with `ProviderError` (`context_length`) if the
 * result does not fit, and otherwise like `applyStrategy`.
 */
export async function compactView(caller: ViewCaller, request: ViewRequest): Promise<CompactedView> {
  const { messageTokens, maxResultTokens, instructions, windowTokens, maxQuestionTokens, keepMessages } = request;
  const prompt = repairMessages(request.messages) as Message[];
  const sourceMessages = prompt.map(detachState);
  const { strategy, messages } = await applyStrategy(caller, request.strategy, {
    messages: sourceMessages,
    budget: Math.min(maxResultTokens, Math.floor(messageTokens * TARGET_SHARE)),
    keepMessages,
    instructions,
    maxQuestionTokens,
  });
  const fittedMessages = fitMessages(repairMessages(messages), messageTokens);
  const isUnchanged =
    fittedMessages.length === sourceMessages.length &&
    fittedMessages.every((message, i) => message === sourceMessages[i]);
  const promptTokens = estimateTokens(prompt);
  const freeTokens = Math.min(messageTokens, promptTokens) * FILLED_SHARE - estimateTokens(fittedMessages);
  const textTokens = Math.max(0, Math.min(freeTokens, messageTokens * MAX_TEXT_SHARE, MAX_TEXT_TOKENS));
  const work = await readWork(caller, fittedMessages, Math.floor(textTokens) * BYTES_PER_TOKEN);
  const stateBytes = Math.floor(messageTokens * MAX_STATE_SHARE) * BYTES_PER_TOKEN;
  const view = fitMessages(attachState(fittedMessages, caller.state, stateBytes, work), messageTokens);
  const viewTokens = estimateTokens(view);
  if (viewTokens > messageTokens) {
    const reason = `the prompt does not fit the window of ${windowTokens} tokens`;
    throw new ProviderError(caller.provider.name, "context_length", reason);
  }
  const isUseless = isUnchanged || (instructions !== undefined && viewTokens >= promptTokens);
  return { strategy, messages: view, isUseless };
}

/** Like `ViewCaller.readWork`, but a failure only loses what could not be read. */
async function readWork(caller: ViewCaller, view: readonly ModelMessage[], maxBytes: number): Promise<SessionWork> {
  try {
    return await caller.readWork(view, maxBytes);
  } catch (error) {
    caller.signal.throwIfAborted();
    caller.logger.warn("work of the session could not be read; not attached to the compacted conversation", {
      session: caller.sessionId,
      error,
    });
    return NO_WORK;
  }
}
