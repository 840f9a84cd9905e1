import type { ModelPurpose } from "../ports/bus-events.js";
import type { ModelChunk, ModelRequest, ModelUsage } from "../ports/model-provider.js";

/** A model call that the budget admits. */
export interface AdmittedCall {
  /** The request, with an answer limit within the budget. */
  readonly request: ModelRequest;
  /** Estimated tokens of the prompt. */
  readonly promptTokens: number;
  /** Maximum tokens of the answer within the budget. */
  readonly maxAnswerTokens: number;
  /** Whether `request` contains `maxAnswerTokens`. */
  readonly hasAnswerLimit: boolean;
  /** Whether only the budget limits the answer: neither the request nor the model has a lower limit. */
  readonly isLimitedByBudgetOnly: boolean;
}

/** The part of a run's budget that model calls use. */
export interface Allowance {
  /**
   * Admits a call with the answer length that the budget allows. Rejects with `BudgetSpentError` if the remaining
   * budget is too small for the call.
   */
  admit(purpose: ModelPurpose, request: ModelRequest): Promise<AdmittedCall>;
  /** Counts a complete answer. `usage`: as the provider reported it. */
  recordAnswer(purpose: ModelPurpose, admittedCall: AdmittedCall, meter: AnswerMeter, usage: ModelUsage): void;
  /** Returns the usage with its cost if the price is known. For answers that ended before usage was reported. */
  addCost(estimatedUsage: ModelUsage): Promise<ModelUsage>;
  /** Counts an interrupted answer, which must still be paid for. Never rejects. */
  recordInterrupted(purpose: ModelPurpose, estimatedUsage: ModelUsage): Promise<void>;
}

/** Divisor that estimates the tokens of an answer from its characters. */
const CHARACTERS_PER_TOKEN = 6;
/** Divisor for an answer that only the budget limits. Lower, so that the estimate is rather too high. */
const BUDGET_LIMITED_CHARACTERS_PER_TOKEN = 3;
/** A reported token count with more characters per token than this is too low. */
const MAX_CHARACTERS_PER_TOKEN = 8;

/** Counts an answer while it arrives, because some providers ignore the requested limit. */
export class AnswerMeter {
  readonly #admittedCall: AdmittedCall;
  #pieceCount = 0;
  #textCharacters = 0;
  /** Characters of arguments: streamed, and in complete calls. Both are the same text if a provider sends both. */
  #streamedArgumentCharacters = 0;
  #callArgumentCharacters = 0;
  /** Whether a chunk exceeded the budget and therefore ended the answer. */
  isExceeded = false;

  constructor(admittedCall: AdmittedCall) {
    this.#admittedCall = admittedCall;
  }

  /** Estimated tokens so far. Each piece counts as at least one token. */
  get tokens(): number {
    return Math.max(
      this.#pieceCount,
      Math.ceil(
        this.#characters /
          (this.#admittedCall.isLimitedByBudgetOnly ? BUDGET_LIMITED_CHARACTERS_PER_TOKEN : CHARACTERS_PER_TOKEN),
      ),
    );
  }

  /** Minimum number of tokens so far, to check the provider's count. */
  get minTokens(): number {
    return Math.floor(this.#characters / MAX_CHARACTERS_PER_TOKEN);
  }

  /** Whether the answer with this chunk exceeds the budget. Otherwise counts the chunk. */
  exceedsBudget(chunk: ModelChunk): boolean {
    if (chunk.type === "finish") return false;
    const previousCounts = [
      this.#pieceCount,
      this.#textCharacters,
      this.#streamedArgumentCharacters,
      this.#callArgumentCharacters,
    ] as const;
    const text = chunk.type === "tool_call" ? chunk.arguments : chunk.text;
    if (chunk.type === "tool_call") this.#callArgumentCharacters += text.length;
    else {
      if (text !== "") this.#pieceCount += 1;
      if (chunk.type === "tool_input") this.#streamedArgumentCharacters += text.length;
      else this.#textCharacters += text.length;
    }
    if (this.tokens <= this.#admittedCall.maxAnswerTokens) return false;
    [this.#pieceCount, this.#textCharacters, this.#streamedArgumentCharacters, this.#callArgumentCharacters] =
      previousCounts;
    this.isExceeded = true;
    return true;
  }

  /** Estimated usage, for when the provider reports none. */
  get estimatedUsage(): ModelUsage {
    const counts = { inputTokens: this.#admittedCall.promptTokens, outputTokens: this.tokens };
    return { ...counts, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0, estimated: true };
  }

  get #characters(): number {
    return this.#textCharacters + Math.max(this.#streamedArgumentCharacters, this.#callArgumentCharacters);
  }
}
