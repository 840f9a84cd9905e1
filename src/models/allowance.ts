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
  /** Whether the request contains that limit. */
  readonly hasAnswerLimit: boolean;
  /** Whether only the budget limits the answer: neither the request nor the model has a lower limit. */
  readonly isUnbounded: boolean;
}

/** The budget for the model calls of one owner. */
export interface Allowance {
  /**
   * Admits a call with the answer length that the budget allows. Rejects with `BudgetSpentError` if there is too little
   * for the call.
   */
  admit(purpose: ModelPurpose, request: ModelRequest): Promise<AdmittedCall>;
  /** Counts a complete answer. `usage`: as the provider reported it. */
  recordAnswer(purpose: ModelPurpose, admitted: AdmittedCall, meter: Meter, usage: ModelUsage): void;
  /** Returns the usage of an answer that was ended before the provider reported it, with its price if known. */
  estimateCost(estimated: ModelUsage): Promise<ModelUsage>;
  /** Counts an interrupted answer, which must still be paid for. Never rejects. */
  recordInterrupted(purpose: ModelPurpose, estimated: ModelUsage): Promise<void>;
}

/**
 * Characters per token over a whole answer. The first value is the maximum. The second is used for an answer that only
 * the budget ends, and estimates rather too many tokens.
 */
const CHARACTERS_PER_TOKEN = 6;
const UNBOUNDED_CHARACTERS_PER_TOKEN = 3;
/** Characters per token above which a provider's reported token count is too low. */
const MAX_CHARACTERS_PER_TOKEN = 8;

/** Counts an answer while it arrives, because some providers ignore the requested limit. */
export class Meter {
  readonly #admitted: AdmittedCall;
  #pieces = 0;
  #textCharacters = 0;
  /** Characters of arguments: streamed, and in complete calls. Both are the same text if a provider sends both. */
  #inputCharacters = 0;
  #callCharacters = 0;
  /** Whether the meter ended the answer. */
  isExceeded = false;

  constructor(admitted: AdmittedCall) {
    this.#admitted = admitted;
  }

  /**
   * Tokens so far. Each piece counts as at least one. For an answer without a limit of its own the estimate is rather
   * too high.
   */
  get tokens(): number {
    return Math.max(
      this.#pieces,
      Math.ceil(
        this.#characters / (this.#admitted.isUnbounded ? UNBOUNDED_CHARACTERS_PER_TOKEN : CHARACTERS_PER_TOKEN),
      ),
    );
  }

  /** Minimum number of tokens so far. */
  get minTokens(): number {
    return Math.floor(this.#characters / MAX_CHARACTERS_PER_TOKEN);
  }

  /** Whether a chunk exceeds the budget. A chunk that does not exceed it is counted. */
  exceedsBudget(chunk: ModelChunk): boolean {
    if (chunk.type === "finish") return false;
    const before = [this.#pieces, this.#textCharacters, this.#inputCharacters, this.#callCharacters] as const;
    const text = chunk.type === "tool_call" ? chunk.arguments : chunk.text;
    if (chunk.type === "tool_call") this.#callCharacters += text.length;
    else {
      if (text !== "") this.#pieces += 1;
      if (chunk.type === "tool_input") this.#inputCharacters += text.length;
      else this.#textCharacters += text.length;
    }
    if (this.tokens <= this.#admitted.maxAnswerTokens) return false;
    [this.#pieces, this.#textCharacters, this.#inputCharacters, this.#callCharacters] = before;
    this.isExceeded = true;
    return true;
  }

  /** Estimated usage, for when the provider reports none. */
  get estimatedUsage(): ModelUsage {
    const counts = { inputTokens: this.#admitted.promptTokens, outputTokens: this.tokens };
    return { ...counts, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0, estimated: true };
  }

  get #characters(): number {
    return this.#textCharacters + Math.max(this.#inputCharacters, this.#callCharacters);
  }
}
