import { ProviderError } from "gantry";

/** How faults of one provider are told. */
export interface FaultContext {
  readonly provider: string;
  /** Takes secrets out. */
  readonly redact: (text: string) => string;
}

/** Longest excerpt of what a model said wrongly. */
const MOST = 600;

/** Something that a model did wrongly, in words for people and for the model. */
export class InvalidAnswer {
  readonly #what: string;
  readonly #hint: string;
  constructor(what: string, hint: string) {
    this.#what = what;
    this.#hint = hint;
  }

  /** `said`: what the model said, as far as the provider tells it. */
  toError(context: FaultContext, said?: string, status?: number): ProviderError {
    const excerpt = said === undefined || said.trim() === "" ? undefined : context.redact(said.trim());
    const shown = excerpt === undefined ? "" : ` Your answer was: ${cut(excerpt)}`;
    return new ProviderError(
      context.provider,
      "malformed_answer",
      excerpt === undefined ? this.#what : `${this.#what}: ${excerpt}`,
      { hint: this.#hint + shown, status },
    );
  }
}

const CALL_AGAIN =
  "Call a tool of the list by its exact name, with arguments that are one JSON object, or answer in words.";

export const EMPTY_ANSWER = new InvalidAnswer(
  "an empty answer",
  "Your last answer was empty. Go on with the task, or say that it is done.",
);
export const REASONING_ONLY = new InvalidAnswer(
  "thoughts without an answer",
  "Your last answer held thoughts alone. Go on: call a tool, or answer in words.",
);
export const MISSING_CALL = new InvalidAnswer(
  "it stopped to call a tool, but called none",
  `Your last answer announced a tool call that did not arrive. ${CALL_AGAIN}`,
);
export const UNNAMED_CALL = new InvalidAnswer(
  "a tool call without a name",
  `Your last answer held a tool call without a name. ${CALL_AGAIN}`,
);
export const UNREADABLE_CALL = new InvalidAnswer(
  "the model made a malformed tool call",
  `Your last tool call could not be read. ${CALL_AGAIN}`,
);
const UNEXPECTED_CALL = new InvalidAnswer(
  "the model called a tool where none was expected",
  `Your last tool call was not expected. ${CALL_AGAIN}`,
);
const UNREADABLE = new InvalidAnswer(
  "the model made a malformed answer",
  "Your last answer could not be read. Answer again.",
);

/** Gemini's words for what its model did wrongly. */
export const SLIPS: Readonly<Record<string, InvalidAnswer>> = {
  MALFORMED_FUNCTION_CALL: UNREADABLE_CALL,
  UNEXPECTED_TOOL_CALL: UNEXPECTED_CALL,
  MALFORMED_RESPONSE: UNREADABLE,
};

function cut(text: string): string {
  return text.length > MOST ? `${text.slice(0, MOST - 1)}…` : text;
}
