import { bytesOfAll, bytesOfPrefix, BYTES_PER_TOKEN, cachedBytesOf, estimateTokens } from "../models/estimate.js";
import { MIN_RETRY_TOKENS, RejectedPrompts } from "./rejected-prompts.js";
import { compactView, type ViewCaller } from "./compact-view.js";
import { shortenMessage } from "./fit.js";
import { startFollowUp } from "./follow-up.js";
import { shortenPrefix } from "./prompt-prefix.js";
import {
  computeMaxOutputBytes,
  computeMaxPrefixBytes,
  computeWindowSize,
  DEFAULT_WINDOW_TOKENS,
} from "./window-size.js";
import type { Compaction } from "./compaction.js";
import type { Conversation } from "../conversation/conversation.js";
import { hasCode } from "../ports/errors.js";
import type { AgentEvent } from "../ports/events.js";
import { toModelView } from "../conversation/messages.js";
import type { CompactionStrategy } from "../ports/compaction-strategy.js";
import type { ModelRequest, ModelUsage, ReasoningEffort } from "../ports/model-provider.js";
import type { Message } from "../ports/message.js";
import type { JsonSchema, ToolSpec } from "../ports/tool.js";
import type { Recorder } from "../conversation/recorder.js";

/** A requested compaction reduces the messages to at most this share of their size. */
const REQUESTED_COMPACTION_SHARE = 0.5;
/** A requested compaction does nothing if the messages have no more tokens than this. */
const MIN_COMPACTION_TOKENS = 500;
/** Limit of a retry, as a share of the rejected prompt. */
const RETRY_SHARE = 0.6;
/** Usable share of the remaining window. The rest covers errors of the prompt's estimate. */
const USABLE_WINDOW_SHARE = 0.95;
/**
 * A reported prompt size is trusted if it has at least one token per this many bytes. Some servers omit cached tokens.
 */
const MAX_BYTES_PER_TOKEN = 8;

/** The members of a run that its context window uses. */
export interface WindowContext extends ViewCaller {
  readonly effort: ReasoningEffort;
  readonly systemPrompt: string;
  /** Sections of `systemPrompt` from instruction files and skills. */
  readonly instructionTexts: readonly string[];
  readonly tools: readonly ToolSpec[];
  /** Schema of the final answer. Undefined: the answer is free text. */
  readonly outputSchema?: JsonSchema | undefined;
  readonly conversation: Conversation;
  readonly recorder: Recorder;
  readonly events: { push(event: AgentEvent): void };
}

/** The part of every request that comes before the messages. `tokens`: estimated from the bytes. */
interface PromptPrefix {
  system: string;
  tools: readonly ToolSpec[];
  /** The tools of the run from which `tools` was made. They change if the model loads a tool. */
  runTools: readonly ToolSpec[];
  tokens: number;
}

/** Opens the context window of one run. Logs a warning once per model if its window is unknown. */
export function openWindow({ options, loggedModels }: Compaction, context: WindowContext): ContextWindow {
  const { enabled, keepMessages } = options;
  const { provider, model, logger } = context;
  const { size, limit, isKnown } = computeWindowSize(options, model);
  const name = `${provider.name}/${model.id}`;
  if (!isKnown && enabled && !loggedModels.has(name)) {
    loggedModels.add(name);
    logger.warn(`context window of the model is unknown; assuming ${DEFAULT_WINDOW_TOKENS} tokens`, { model: name });
  }
  return new ContextWindow(context, { enabled, size, limit, keepMessages, strategy: options.strategy });
}

/** Options of one compaction, requested or necessary. */
interface CompactionRequest {
  /** Estimated tokens of the prompt before the compaction. */
  tokensBefore?: number;
  /** Maximum tokens of the messages after the prefix. */
  maxMessageTokens?: number;
  instructions?: string;
}

interface Rules {
  readonly enabled: boolean;
  /** Size of the window in tokens, for prompt and answer together. */
  readonly size: number;
  /** Tokens of a prompt above which it is compacted. */
  readonly limit: number;
  readonly keepMessages: number;
  readonly strategy: string | CompactionStrategy;
}

/**
 * The model's context window during one run. Builds the requests, and compacts the conversation before a request
 * exceeds the window.
 */
export class ContextWindow {
  readonly #context: WindowContext;
  readonly #rules: Rules;
  #limit: number;
  #prefix: PromptPrefix;
  /**
   * Tokens of the first `count` messages and the prompt prefix, as counted by the provider. Undefined: no count is
   * valid.
   */
  #reportedSize: { tokens: number; count: number } | undefined;
  #shortenedMessages = new WeakMap<Message, Message>();
  #rejectedPrompts: RejectedPrompts | undefined;

  constructor(context: WindowContext, rules: Rules) {
    this.#context = context;
    this.#rules = rules;
    this.#limit = rules.limit;
    this.#prefix = this.#fitPrefix();
  }

  /**
   * Builds the next request, within the window. Rejects with `ProviderError` (`context_length`) if the prompt cannot be
   * reduced further.
   */
  async buildRequest(): Promise<ModelRequest> {
    const { runTools, tokens } = this.#prefix;
    if (runTools !== this.#context.tools) this.#prefix = this.#fitPrefix();
    if (this.#reportedSize) this.#reportedSize.tokens += this.#prefix.tokens - tokens;
    if (this.#rules.enabled && this.#estimatePromptTokens() > this.#limit) await this.#compact();
    return this.#createRequest();
  }

  /**
   * Records the usage of a completed model call. The answer must already be part of the conversation. Returns the
   * tokens of the conversation with its prefix, as counted by the provider; undefined without a valid count.
   */
  recordAnswer(usage: ModelUsage): number | undefined {
    this.#rejectedPrompts = undefined;
    const { messages } = this.#context.conversation;
    const requestBytes =
      this.#prefix.tokens * BYTES_PER_TOKEN +
      this.#countMessageBytes() -
      bytesOfAll(this.#getVisibleMessages(messages.slice(-1)));
    const isCredible = !usage.estimated && usage.inputTokens * MAX_BYTES_PER_TOKEN >= requestBytes;
    this.#reportedSize = isCredible
      ? { tokens: usage.inputTokens + usage.outputTokens, count: messages.length }
      : undefined;
    return this.#reportedSize?.tokens;
  }

  /** The prompts since the last answer that the provider rejected as too long. Undefined if there are none. */
  get rejectedPrompts(): Pick<RejectedPrompts, "count" | "describe"> | undefined {
    return this.#rejectedPrompts;
  }

  /**
   * Compacts harder after the provider rejected a request as too long. `contextTokens`: the limit that the provider
   * reported. Resolves with false if that would not help.
   */
  async compactRejectedPrompt(contextTokens = Infinity): Promise<boolean> {
    if (!this.#rules.enabled) return false;
    // Drop the provider's count, so that sizes are compared by bytes only. Each retry is then smaller than the last.
    this.#reportedSize = undefined;
    const tokensBefore = this.#estimatePromptTokens();
    const rejectedPrompts = (this.#rejectedPrompts ??= new RejectedPrompts());
    if (!rejectedPrompts.record({ tokens: tokensBefore, toolCount: this.#prefix.tools.length })) return false;
    const { size, limit } = this.#rules;
    const reportedLimit = (contextTokens * limit) / size;
    this.#limit = Math.floor(
      Math.min(
        Math.min(this.#limit, tokensBefore) * RETRY_SHARE,
        // A lower number is no limit of a window.
        reportedLimit < MIN_RETRY_TOKENS ? Infinity : reportedLimit,
      ),
    );
    this.#prefix = this.#fitPrefix();
    // An agent without tools cannot work: the error is more useful.
    const lostTools = this.#prefix.tools.length === 0 && this.#context.tools.length > 0;
    if (lostTools || this.#limit < MIN_RETRY_TOKENS) return false;
    this.#shortenedMessages = new WeakMap();
    this.#context.logger.warn("provider rejected the prompt as too long; compacting further", {
      session: this.#context.sessionId,
      attempt: rejectedPrompts.count,
    });
    try {
      if (this.#estimatePromptTokens() > this.#limit) await this.#compact({ tokensBefore });
    } catch (error) {
      if (hasCode(error, "provider")) return false;
      throw error;
    }
    return true;
  }

  /**
   * Compacts now, on request; `instructions` say what to keep. Uses a summary unless a custom strategy is set. Resolves
   * with the estimated tokens of the next prompt.
   */
  async compact(instructions: string): Promise<number> {
    const messageTokens = estimateTokens(this.#getVisibleMessages(this.#context.conversation.messages));
    if (messageTokens > MIN_COMPACTION_TOKENS)
      await this.#compact({ instructions, maxMessageTokens: Math.floor(messageTokens * REQUESTED_COMPACTION_SHARE) });
    return this.#estimatePromptTokens();
  }

  #createRequest(): ModelRequest {
    const { provider, model, effort, conversation, sessionId, outputSchema } = this.#context;
    const request: ModelRequest = {
      model,
      system: this.#prefix.system,
      messages: toModelView(
        this.#getVisibleMessages(conversation.messages),
        { provider: provider.name, model: model.id },
        conversation.modelMessages,
      ),
      tools: this.#prefix.tools,
      effort,
      cacheKey: sessionId,
    };
    if (outputSchema) request.outputSchema = outputSchema;
    // Many providers reject an answer limit that exceeds the rest of the window.
    const remainingTokens = Math.floor((this.#rules.size - this.#estimatePromptTokens()) * USABLE_WINDOW_SHARE);
    if (this.#rules.enabled && model.maxOutput !== undefined && model.maxOutput > remainingTokens)
      request.maxTokens = Math.max(1, remainingTokens);
    return request;
  }

  /** Tokens of the last report, plus an estimate of the newer messages. Without a report everything is estimated. */
  #estimatePromptTokens(): number {
    const { messages } = this.#context.conversation;
    if (!this.#reportedSize) return this.#prefix.tokens + Math.ceil(this.#countMessageBytes() / BYTES_PER_TOKEN);
    return (
      this.#reportedSize.tokens + estimateTokens(this.#getVisibleMessages(messages.slice(this.#reportedSize.count)))
    );
  }

  #countMessageBytes(): number {
    const { size, messages } = this.#context.conversation;
    return this.#showsFullMessages ? size.bytes : bytesOfAll(this.#getVisibleMessages(messages));
  }

  /** Maximum bytes of one tool output. */
  get #maxOutputBytes(): number {
    return computeMaxOutputBytes(this.#limit, this.#prefix.tokens);
  }

  /** Whether no message has to be shortened. */
  get #showsFullMessages(): boolean {
    return !this.#rules.enabled || this.#context.conversation.size.largestResultBytes <= this.#maxOutputBytes;
  }

  /** Messages as the model sees them. Large tool outputs are cut in the middle, the same way each time. */
  #getVisibleMessages(messages: readonly Message[]): readonly Message[] {
    if (this.#showsFullMessages) return messages;
    const maxBytes = this.#maxOutputBytes;
    return messages.map((message) => {
      if (message.role !== "tool" || cachedBytesOf(message) <= maxBytes) return message;
      const shownMessage = this.#shortenedMessages.get(message) ?? shortenMessage(message, maxBytes);
      this.#shortenedMessages.set(message, shownMessage);
      return shownMessage;
    });
  }

  #fitPrefix(): PromptPrefix {
    const { systemPrompt: system, tools, logger } = this.#context;
    const maxBytes = computeMaxPrefixBytes(this.#limit);
    const bytes = bytesOfPrefix({ system, tools });
    const isShortened = this.#rules.enabled && bytes > maxBytes;
    const prefix = isShortened ? shortenPrefix(system, tools, maxBytes, logger) : { system, tools, bytes };
    return { ...prefix, runTools: tools, tokens: Math.ceil(prefix.bytes / BYTES_PER_TOKEN) };
  }

  async #compact({
    tokensBefore = this.#estimatePromptTokens(),
    maxMessageTokens = Infinity,
    instructions,
  }: CompactionRequest = {}): Promise<void> {
    const { id: runId, sessionId, conversation, recorder, bus, events, logger } = this.#context;
    const { size: windowTokens, strategy: configuredStrategy, keepMessages } = this.#rules;
    const { strategy, messages, isUseless } = await compactView(this.#context, {
      messages: this.#getVisibleMessages(conversation.messages),
      strategy: configuredStrategy,
      keepMessages,
      windowTokens,
      // The limit of prompts leaves room for an answer, which a question counts itself.
      maxQuestionTokens: this.#rejectedPrompts ? this.#limit : Math.floor(windowTokens * USABLE_WINDOW_SHARE),
      messageTokens: this.#limit - this.#prefix.tokens,
      maxResultTokens: maxMessageTokens,
      instructions,
    });
    this.#reportedSize = undefined;
    if (isUseless) return;
    const previousSession = conversation.session;
    const nextSession = await startFollowUp(recorder, conversation, messages);
    logger.info("context compacted", { session: sessionId, strategy, tokens: tokensBefore, messages: messages.length });
    bus.emit("session.compacted", { runId, rootId: sessionId, from: previousSession.id, to: nextSession.id, strategy });
    events.push({ type: "compaction", strategy, messages: messages.length, tokens: tokensBefore });
  }
}
