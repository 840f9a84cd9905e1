import { nearestEffort } from "../models/efforts.js";
import { abortable } from "../base/abort.js";
import { bytesOfAll, BYTES_PER_TOKEN, estimatePrompt, sizeOf, tokensOf } from "../models/estimate.js";
import { fit, shortened } from "./fit.js";
import { followUp } from "./follow-up.js";
import { fitFrame, type Frame } from "./prompt-prefix.js";
import type { Compaction, WindowRules } from "./compaction.js";
import { SlidingWindow } from "./sliding-window.js";
import { Summary } from "./summary.js";
import { attachState, detachState } from "./attached-state.js";
import type { Conversation } from "../conversation/conversation.js";
import { hasCode, ProviderError } from "../ports/errors.js";
import type { AgentEvent } from "../ports/events.js";
import { modelView, repaired } from "../conversation/messages.js";
import { callModel, type ModelCaller } from "../models/model-call.js";
import { toldWaits } from "../models/record-retries.js";
import type { CompactionInput, CompactionStrategy } from "../ports/compaction-strategy.js";
import type { ModelRequest, ModelUsage, ReasoningEffort } from "../ports/model-provider.js";
import type { Message, ModelMessage } from "../ports/message.js";
import type { JsonSchema, ToolSpec } from "../ports/tool.js";
import type { Recorder } from "../conversation/recorder.js";
import { cutMiddle } from "../base/cut-text.js";

/** Share of the room for messages that a compaction fills, so that the next one is some way off. */
const HEADROOM = 0.6;
/** Instructions and tools take at most this share of a prompt; beyond it they are told in short. */
const FRAME_SHARE = 0.6;
/** One tool output takes at most this share of the room for messages. */
const OUTPUT_SHARE = 1 / 3;
/** What somebody asked to be compacted becomes at most so much of what it was. */
const ASKED_SHARE = 0.5;
/** The attached state of the session takes at most this share of the room for messages. */
const STATE_SHARE = 0.25;
/** Tokens of messages that are not worth a compaction. */
const FEW = 500;
/** How often a call is tried again after the provider said that the prompt is too long, each time smaller. */
const RETREATS = 5;
const RETREAT = 0.6;
/** A reported prompt is believed when it has at least one token for so many bytes; some servers leave cached tokens out. */
const PLAUSIBLE_BYTES = 8;

/** What a window reads of its run. */
export interface WindowContext extends ModelCaller {
  readonly effort: ReasoningEffort;
  readonly system: string;
  readonly tools: readonly ToolSpec[];
  /** Of the last answer; undefined: any. */
  readonly outputSchema?: JsonSchema | undefined;
  readonly conversation: Conversation;
  /** State that tools keep for the session; attached again after a compaction. */
  readonly state: ReadonlyMap<string, unknown>;
  readonly recorder: Recorder;
  readonly events: { push(event: AgentEvent): void };
  readonly signal: AbortSignal;
}

/** The window of one run. */
export function openWindow(compaction: Compaction, context: WindowContext): ContextWindow {
  const { strategy, ...rules } = compaction.rules(context);
  return new ContextWindow(context, {
    ...rules,
    strategy: typeof strategy === "string" ? builtIn(strategy) : strategy,
  });
}

function builtIn(name: string): CompactionStrategy {
  return name === "summary" ? new Summary() : new SlidingWindow();
}

/** What somebody asked for, or why it has to be. */
interface Asked {
  before?: number;
  most?: number;
  wanted?: string;
}

interface Compacted {
  strategy: string;
  messages: ModelMessage[];
}

type Rules = Omit<WindowRules, "strategy"> & { strategy: CompactionStrategy };

/** The model's window during one run: makes the requests, and compacts the conversation before one would not fit. */
export class ContextWindow {
  readonly #context: WindowContext;
  readonly #rules: Rules;
  #limit: number;
  #frame: Frame;
  /** Tokens of the first `count` messages and the frame, as the provider counted them. */
  #reported: { tokens: number; count: number } | undefined;
  #shown = new WeakMap<Message, Message>();
  #retreats = 0;

  constructor(context: WindowContext, rules: Rules) {
    this.#context = context;
    this.#rules = rules;
    this.#limit = rules.limit;
    this.#frame = this.#fitFrame();
  }

  /** The next request, within the window. Rejects with `ProviderError` (`context_length`) when nothing more can give. */
  async request(): Promise<ModelRequest> {
    if (this.#rules.enabled && this.#promptTokens() > this.#limit) await this.#compact();
    return this.#request();
  }

  /** A model call ended well, and its answer is part of the conversation. */
  answered(usage: ModelUsage): void {
    this.#retreats = 0;
    const { messages } = this.#context.conversation;
    const asked = this.#frame.tokens * BYTES_PER_TOKEN + this.#bytes() - bytesOfAll(this.#seen(messages.slice(-1)));
    const believed = !usage.estimated && usage.inputTokens * PLAUSIBLE_BYTES >= asked;
    this.#reported = believed ? { tokens: usage.inputTokens + usage.outputTokens, count: messages.length } : undefined;
  }

  /** The provider refused a request as too long: compact harder. Resolves with false when that would not help. */
  async tooLong(): Promise<boolean> {
    if (!this.#rules.enabled || this.#retreats >= RETREATS) return false;
    this.#retreats += 1;
    // By bytes alone, as every later estimate will be, so that each retreat makes the request smaller.
    this.#reported = undefined;
    const before = this.#promptTokens();
    this.#limit = Math.floor(Math.min(this.#limit, before) * RETREAT);
    this.#frame = this.#fitFrame();
    this.#shown = new WeakMap();
    this.#context.logger.warn("the provider says that the prompt is too long; compacting it further", {
      session: this.#context.sessionId,
      attempt: this.#retreats,
    });
    try {
      if (this.#promptTokens() > this.#limit) await this.#compact({ before });
    } catch (error) {
      if (hasCode(error, "provider")) return false;
      throw error;
    }
    return true;
  }

  /**
   * Compact now, since somebody asked, `wanted` says what to keep; by a summary, unless an own strategy was chosen. Resolves
   * with the tokens of the next prompt.
   */
  async compact(wanted: string): Promise<number> {
    const messages = tokensOf(this.#seen(this.#context.conversation.messages));
    if (messages > FEW) await this.#compact({ wanted, most: Math.floor(messages * ASKED_SHARE) });
    return this.#promptTokens();
  }

  #request(): ModelRequest {
    const { provider, model, effort, conversation, sessionId, outputSchema } = this.#context;
    const { size } = this.#rules;
    const request: ModelRequest = {
      model,
      system: this.#frame.system,
      messages: modelView(
        this.#seen(conversation.messages),
        { provider: provider.name, model: model.id },
        conversation.told,
      ),
      tools: this.#frame.tools,
      effort,
      cacheKey: sessionId,
    };
    if (outputSchema) request.outputSchema = outputSchema;
    // Prompt and answer share the window; many providers refuse a request that allows for more.
    const room = Math.floor((size - this.#promptTokens()) * 0.95);
    if (this.#rules.enabled && model.maxOutput !== undefined && model.maxOutput > room) {
      request.maxTokens = Math.max(1, room);
    }
    return request;
  }

  /** Last report and what came since at bytes / 3; without a report all of it. */
  #promptTokens(): number {
    const { messages } = this.#context.conversation;
    if (!this.#reported) return this.#frame.tokens + Math.ceil(this.#bytes() / BYTES_PER_TOKEN);
    return this.#reported.tokens + tokensOf(this.#seen(messages.slice(this.#reported.count)));
  }

  /** Of all messages. */
  #bytes(): number {
    const { size, messages } = this.#context.conversation;
    return this.#showsAll ? size.bytes : bytesOfAll(this.#seen(messages));
  }

  /** Most bytes of one tool output. */
  get #most(): number {
    return Math.max(600, Math.floor((this.#limit - this.#frame.tokens) * OUTPUT_SHARE) * BYTES_PER_TOKEN);
  }

  get #showsAll(): boolean {
    return !this.#rules.enabled || this.#context.conversation.size.largestResult <= this.#most;
  }

  /** Messages as the model sees them: one tool output that would fill the window is cut in the middle, always alike. */
  #seen(messages: readonly Message[]): readonly Message[] {
    if (this.#showsAll) return messages;
    const most = this.#most;
    return messages.map((message) => {
      if (message.role !== "tool" || sizeOf(message) <= most) return message;
      const known = this.#shown.get(message) ?? shortened(message, most);
      this.#shown.set(message, known);
      return known;
    });
  }

  #fitFrame(): Frame {
    const { system, tools, logger } = this.#context;
    const budget = this.#rules.enabled ? Math.floor(this.#limit * FRAME_SHARE) : Infinity;
    return fitFrame(system, tools, budget, logger);
  }

  /** `before`: tokens of the prompt. `most`: of its messages behind it. */
  async #compact({ before = this.#promptTokens(), most = Infinity, wanted }: Asked = {}): Promise<void> {
    const { id: runId, sessionId, conversation, state, recorder, bus, events, provider, logger } = this.#context;
    const room = this.#limit - this.#frame.tokens;
    const prompt = repaired(this.#seen(conversation.messages)) as Message[];
    const source = prompt.map(detachState);
    const { strategy, messages } = await this.#apply(source, Math.min(most, Math.floor(room * HEADROOM)), wanted);
    const fitted = fit(repaired(messages), room);
    const isSame = fitted.length === source.length && fitted.every((message, i) => message === source[i]);
    const view = fit(attachState(fitted, state, Math.floor(room * STATE_SHARE) * BYTES_PER_TOKEN), room);
    if (tokensOf(view) > room) {
      const size = this.#rules.size;
      throw new ProviderError(provider.name, "context_length", `the prompt does not fit the window of ${size} tokens`);
    }
    this.#reported = undefined;
    // Nothing was gained: another session of the chain would be of no use.
    if (isSame || (wanted !== undefined && tokensOf(view) >= tokensOf(prompt))) return;
    const from = conversation.session;
    const to = await followUp(recorder, conversation, view);
    logger.info("context compacted", { session: sessionId, strategy, tokens: before, messages: view.length });
    bus.emit("session.compacted", { runId, rootId: sessionId, from: from.id, to: to.id, strategy });
    events.push({ type: "compaction", strategy, messages: view.length, tokens: before });
  }

  /** By the chosen strategy; where that fails, or leaves nothing, by the sliding window. */
  async #apply(messages: Message[], budget: number, wanted: string | undefined): Promise<Compacted> {
    const { signal, sessionId, logger } = this.#context;
    const { strategy: chosen, keepMessages } = this.#rules;
    // Whoever asks can wait for a summary, which loses less.
    const strategy = wanted !== undefined && chosen instanceof SlidingWindow ? new Summary() : chosen;
    const input: CompactionInput = {
      messages,
      budget,
      keepMessages,
      wanted,
      estimate: tokensOf,
      ask: (question, asking) => this.#ask(question, asking),
    };
    try {
      // Raced, so that a strategy that ignores its signal cannot hold a run.
      const compacted = await abortable((async () => strategy.compact(input, signal))(), signal);
      signal.throwIfAborted();
      if (repaired(compacted).length > 0) return { strategy: strategy.name, messages: compacted };
      throw new Error("nothing was left of the conversation");
    } catch (error) {
      signal.throwIfAborted();
      // Nothing has to go: better as it was than without what was said.
      if (wanted !== undefined) throw error;
      const why = error instanceof Error ? error.message : String(error);
      logger.warn("a compaction failed; older messages are left out instead", {
        session: sessionId,
        strategy: strategy.name,
        error: why,
      });
    }
    const fallback = new SlidingWindow();
    return { strategy: fallback.name, messages: await fallback.compact(input, signal) };
  }

  async #ask(question: Parameters<CompactionInput["ask"]>[0], signal: AbortSignal): Promise<string> {
    const { model, sessionId, recorder } = this.#context;
    const maxTokens = Math.min(question.maxTokens, model.maxOutput ?? question.maxTokens);
    const asking = (text: string): ModelRequest => ({
      model,
      system: question.system,
      messages: [{ role: "user", parts: [{ type: "text", text }], toolCallId: "", name: "", failed: false }],
      tools: [],
      maxTokens,
      effort: nearestEffort(model.reasoning ? "minimal" : "", model.efforts),
      thinks: false,
      cacheKey: `${sessionId}-compaction`,
    });
    const room = this.#limit - estimatePrompt(asking("")) - maxTokens;
    const request = asking(cutMiddle(question.message, Math.max(0, room) * BYTES_PER_TOKEN));
    const waits = toldWaits((retry) => recorder.waits(retry));
    const answer = await callModel(this.#context, "summary", request, signal, waits);
    if ("error" in answer) throw answer.error;
    await recorder.write({ sync: false, usage: answer.paid });
    const text = answer.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
    if (text.trim() === "")
      throw new ProviderError(this.#context.provider.name, "protocol", "it said nothing where it was asked to sum up");
    return text;
  }
}
