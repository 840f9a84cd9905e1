import { ProviderError } from "../ports/errors.js";
import type { ModelChunk } from "../ports/model-provider.js";

/** The most that one answer of a model may hold; far beyond any real one. */
export const ANSWER_LIMITS = {
  /** Text, reasoning and calls together. */
  characters: 4_000_000,
  /** Tool calls: each would run. */
  calls: 128,
  /** Blocks of text and reasoning. */
  blocks: 1_000,
};

/** Counts an answer as it comes, whoever sends it: without an end it would fill the memory and the store. */
export class AnswerLimits {
  readonly #provider: string;
  #blocks = 0;
  #said = 0;
  /** Of arguments: as they arrived, and as whole calls brought them. The same, where a provider tells both. */
  #arriving = 0;
  #called = 0;
  #calls = 0;

  constructor(provider: string) {
    this.#provider = provider;
  }

  /** Throws `ProviderError` of the kind `too_large`, which no second try mends. */
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

  /** A block of text or reasoning begins. Throws as `take`. */
  block(): void {
    this.#blocks += 1;
    if (this.#blocks > ANSWER_LIMITS.blocks) this.#refuse(ANSWER_LIMITS.blocks, "blocks of text and reasoning");
  }

  #refuse(most: number, what: string): never {
    throw new ProviderError(this.#provider, "too_large", `an answer of more than ${most.toLocaleString("en")} ${what}`);
  }
}
