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
  #blockCount = 0;
  #textCharacters = 0;
  /** Characters of arguments: streamed, and in complete calls. Both are the same text if a provider sends both. */
  #streamedArgumentCharacters = 0;
  #callArgumentCharacters = 0;
  #callCount = 0;

  constructor(provider: string) {
    this.#provider = provider;
  }

  /** Counts a chunk. Throws `ProviderError` of kind `too_large`, which a retry cannot fix. */
  countChunk(chunk: ModelChunk): void {
    switch (chunk.type) {
      case "text":
      case "reasoning":
        this.#textCharacters += chunk.text.length;
        break;
      case "tool_input":
        this.#streamedArgumentCharacters += chunk.text.length;
        break;
      case "tool_call":
        this.#callArgumentCharacters += chunk.arguments.length;
        this.#textCharacters += chunk.name.length + chunk.id.length;
        this.#callCount += 1;
        break;
      case "finish":
        break;
    }
    const { characters, calls } = ANSWER_LIMITS;
    if (this.#textCharacters + Math.max(this.#streamedArgumentCharacters, this.#callArgumentCharacters) > characters)
      this.#throwTooLarge(characters, "characters");
    if (this.#callCount > calls) this.#throwTooLarge(calls, "tool calls");
  }

  /** Counts a new block of text or reasoning. Throws the same error as `countChunk`. */
  countBlock(): void {
    this.#blockCount += 1;
    if (this.#blockCount > ANSWER_LIMITS.blocks)
      this.#throwTooLarge(ANSWER_LIMITS.blocks, "blocks of text and reasoning");
  }

  #throwTooLarge(limit: number, unit: string): never {
    throw new ProviderError(
      this.#provider,
      "too_large",
      `an answer of more than ${limit.toLocaleString("en")} ${unit}`,
    );
  }
}
