import { ProviderError } from "../ports/errors.js";
import type { ModelChunk } from "../ports/model-provider.js";

/** Maximum size of one model answer, far beyond any real one. */
export const ANSWER_LIMITS = {
  /** Characters of text, reasoning and calls together. */
  characters: 4_000_000,
  /** Tool calls. Each would be executed. */
  calls: 128,
  /** Blocks of text and reasoning. */
  blocks: 1_000,
};

/** Counts an answer while it arrives, from any provider. An endless answer would fill the memory and the store. */
export class AnswerLimits {
  readonly #provider: string;
  #blocks = 0;
  #said = 0;
  /** Characters of arguments: streamed, and in complete calls. Both are the same text if a provider sends both. */
  #arriving = 0;
  #called = 0;
  #calls = 0;

  constructor(provider: string) {
    this.#provider = provider;
  }

  /** Counts a chunk. Throws `ProviderError` of kind `too_large`, which a retry cannot fix. */
  take(chunk: ModelChunk): void {
    switch (chunk.type) {
      case "text":
      case "reasoning":
        this.#said += chunk.text.length;
        break;
      case "tool_input":
        this.#arriving += chunk.text.length;
        break;
      case "tool_call":
        this.#called += chunk.arguments.length;
        this.#said += chunk.name.length + chunk.id.length;
        this.#calls += 1;
        break;
      case "finish":
        break;
    }
    const { characters, calls } = ANSWER_LIMITS;
    if (this.#said + Math.max(this.#arriving, this.#called) > characters) this.#refuse(characters, "characters");
    if (this.#calls > calls) this.#refuse(calls, "tool calls");
  }

  /**
   * Counts a new block of text or reasoning. Throws as `take`. R src/models/answer-limits.ts AnswerLimits.#said =
   * #textCharacters R src/models/answer-limits.ts AnswerLimits.#arriving = #inputCharacters R
   * src/models/answer-limits.ts AnswerLimits.#called = #callCharacters R src/models/answer-limits.ts AnswerLimits.block
   * = addBlock R src/models/answer-limits.ts AnswerLimits.#refuse.most = limit R src/models/answer-limits.ts
   * AnswerLimits.#refuse.what = unit
   */
  block(): void {
    this.#blocks += 1;
    if (this.#blocks > ANSWER_LIMITS.blocks) this.#refuse(ANSWER_LIMITS.blocks, "blocks of text and reasoning");
  }

  #refuse(most: number, what: string): never {
    throw new ProviderError(this.#provider, "too_large", `an answer of more than ${most.toLocaleString("en")} ${what}`);
  }
}
