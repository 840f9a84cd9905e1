/** Maximum retries after the provider rejected the prompt as too long. Each retry is smaller than the last. */
const MAX_RETRIES = 5;
/** Minimum tokens of a retry. No model with tools has a smaller window, so that the error has another reason. */
export const MIN_RETRY_TOKENS = 1_000;

interface RejectedPrompt {
  /** Estimated from the bytes. */
  readonly tokens: number;
  readonly toolCount: number;
}

/** The prompts since the last answer that the provider rejected as too long. */
export class RejectedPrompts {
  readonly #prompts: RejectedPrompt[] = [];

  get count(): number {
    return this.#prompts.length;
  }

  /** Records a rejected prompt. Returns whether another retry is allowed. */
  record(prompt: RejectedPrompt): boolean {
    this.#prompts.push(prompt);
    return this.#prompts.length <= MAX_RETRIES;
  }

  /** Describes the rejected prompts for the error of a run. `""`: none was recorded. */
  describe(): string {
    const [first, last] = [this.#prompts[0], this.#prompts.at(-1)];
    if (first === undefined || last === undefined) return "";
    if (first === last) return "the prompt cannot be reduced further";
    const describePrompt = ({ tokens, toolCount }: RejectedPrompt) => `${tokens} tokens with ${toolCount} tools`;
    return (
      `${this.count} prompts were rejected as too long, from about ${describePrompt(first)} to ` +
      `${describePrompt(last)}; the model's context_window may be set too high, or the error has another reason`
    );
  }
}
