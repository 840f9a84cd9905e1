import type { ModelPurpose } from "../ports/bus-events.js";
import type { ModelChunk, ModelRequest, ModelUsage } from "../ports/model-provider.js";

/** A call that there is enough for. */
export interface Admitted {
  /** With an answer no longer than there is enough for. */
  readonly request: ModelRequest;
  /** Tokens of the prompt, estimated. */
  readonly promptTokens: number;
  /** Tokens of answer that there are enough for. */
  readonly most: number;
  /** Whether the request says so. */
  readonly bounded: boolean;
  /** Whether nothing else ends the answer before that: neither the request nor the model's own limits. */
  readonly free: boolean;
}

/** What somebody's model calls may cost. */
export interface Allowance {
  /** Whether there is enough for a call, and for how long an answer. Rejects with `BudgetSpentError`. */
  admit(purpose: ModelPurpose, request: ModelRequest): Promise<Admitted>;
  /** An answer came whole; `usage` as it was told. */
  answered(purpose: ModelPurpose, admitted: Admitted, meter: Meter, usage: ModelUsage): void;
  /** An answer was ended before its provider told what it takes: what it took, with its price where that is known. */
  priced(estimated: ModelUsage): Promise<ModelUsage>;
  /** An answer broke off that somebody pays for all the same. Never rejects. */
  brokeOff(purpose: ModelPurpose, estimated: ModelUsage): Promise<void>;
}

/** Characters that a token stands for at most, over a whole answer; and as many as count for one where nothing else ends it. */
const SPARSE = 6;
const DENSE = 3;
/** Whoever tells fewer tokens than that many characters tells too few. */
const LEAST = 8;

/** Counts an answer as it comes, for one whose provider does not heed the limit that it was given. */
export class Meter {
  readonly #admitted: Admitted;
  #pieces = 0;
  #said = 0;
  /** Of arguments: as they arrive, and in whole calls; the same, where a provider tells both. */
  #arriving = 0;
  #called = 0;
  /** Whether the answer was ended. */
  cut = false;

  constructor(admitted: Admitted) {
    this.#admitted = admitted;
  }

  /** Tokens so far: no piece has less than one. Of an answer without a limit of its own rather too many. */
  get tokens(): number {
    return Math.max(this.#pieces, Math.ceil(this.#characters / (this.#admitted.free ? DENSE : SPARSE)));
  }

  /** As few tokens as it can be. */
  get least(): number {
    return Math.floor(this.#characters / LEAST);
  }

  /** Whether a chunk would be more than there is enough for; one that is not counts. */
  isTooMuch(chunk: ModelChunk): boolean {
    if (chunk.type === "finish") return false;
    const before = [this.#pieces, this.#said, this.#arriving, this.#called] as const;
    const text = chunk.type === "tool_call" ? chunk.arguments : chunk.text;
    if (chunk.type === "tool_call") this.#called += text.length;
    else {
      if (text !== "") this.#pieces += 1;
      if (chunk.type === "tool_input") this.#arriving += text.length;
      else this.#said += text.length;
    }
    if (this.tokens <= this.#admitted.most) return false;
    [this.#pieces, this.#said, this.#arriving, this.#called] = before;
    this.cut = true;
    return true;
  }

  /** What the answer took, where nobody tells. */
  get estimated(): ModelUsage {
    const counts = { inputTokens: this.#admitted.promptTokens, outputTokens: this.tokens };
    return { ...counts, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0, estimated: true };
  }

  get #characters(): number {
    return this.#said + Math.max(this.#arriving, this.#called);
  }
}
