import { ProviderError } from "gantry";

/** Data for errors of one provider. */
export interface FaultContext {
  readonly provider: string;
  /** Removes secrets from a text. */
  readonly redact: (text: string) => string;
  /**
   * Environment variables of the API key, for errors about the key. Empty if only the config can contain the key.
   * Undefined for credentials of another kind.
   */
  readonly keyVariables?: readonly string[] | undefined;
}

/** Maximum characters of an excerpt from an invalid answer. */
const MAX_EXCERPT_CHARACTERS = 600;

/** A kind of invalid answer. */
export class InvalidAnswer {
  /** Text for users. */
  readonly #description: string;
  /** Instruction for the model in the next attempt. */
  readonly #hint: string;
  constructor(description: string, hint: string) {
    this.#description = description;
    this.#hint = hint;
  }

  /** `output` and `status`: the invalid output and the HTTP status, if the provider reports them. */
  toError(context: FaultContext, output?: string, status?: number): ProviderError {
    const excerpt = output === undefined || output.trim() === "" ? undefined : context.redact(output.trim());
    const quote = excerpt === undefined ? "" : ` Your answer was: ${truncate(excerpt)}`;
    return new ProviderError(
      context.provider,
      "malformed_answer",
      excerpt === undefined ? this.#description : `${this.#description}: ${excerpt}`,
      { hint: this.#hint + quote, status },
    );
  }
}

const CALL_AGAIN_INSTRUCTION =
  "Call a tool from the list by its exact name with arguments as one JSON object, or answer with text.";

export const EMPTY_ANSWER = new InvalidAnswer(
  "an empty answer",
  "Your last answer was empty. Continue with the task, or say that it is done.",
);
export const REASONING_ONLY_ANSWER = new InvalidAnswer(
  "reasoning without an answer",
  "Your last answer contained only reasoning. Continue: call a tool, or answer with text.",
);
export const MISSING_CALL = new InvalidAnswer(
  "the answer ended for a tool call but contains none",
  `Your last answer announced a tool call that did not arrive. ${CALL_AGAIN_INSTRUCTION}`,
);
export const UNNAMED_CALL = new InvalidAnswer(
  "a tool call without a name",
  `Your last answer contained a tool call without a name. ${CALL_AGAIN_INSTRUCTION}`,
);
export const UNREADABLE_CALL = new InvalidAnswer(
  "the model made a malformed tool call",
  `Your last tool call could not be read. ${CALL_AGAIN_INSTRUCTION}`,
);
const UNEXPECTED_CALL = new InvalidAnswer(
  "the model called a tool where none was expected",
  `Your last tool call was not expected. ${CALL_AGAIN_INSTRUCTION}`,
);
const UNREADABLE_ANSWER = new InvalidAnswer(
  "the model made a malformed answer",
  "Your last answer could not be read. Answer again.",
);

/** Gemini's finish reasons for invalid answers. */
export const INVALID_FINISH_REASONS: Readonly<Record<string, InvalidAnswer>> = {
  MALFORMED_FUNCTION_CALL: UNREADABLE_CALL,
  UNEXPECTED_TOOL_CALL: UNEXPECTED_CALL,
  MALFORMED_RESPONSE: UNREADABLE_ANSWER,
};

function truncate(text: string): string {
  return text.length > MAX_EXCERPT_CHARACTERS ? `${text.slice(0, MAX_EXCERPT_CHARACTERS - 1)}…` : text;
}
