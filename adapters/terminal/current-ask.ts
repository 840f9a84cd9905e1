import type { ApiAsk } from "gantry/client";
import { AskPanel } from "./ask-panel.js";
import type { KeyInput } from "./keys.js";

/**
 * Maximum time between an answer and the next question, in ms. Within this time, early keys count as meant for the
 * answered question: they are dropped and do not reach the prompt.
 */
const MAX_NEXT_QUESTION_DELAY_MS = 2_000;
/** Time after an answer in which a second Enter is ignored, in ms. */
const DOUBLE_ENTER_PERIOD_MS = 300;

/** The id of a choice, or a text. */
type AskReply = { choice: string } | { text: string };

/** Services that the current question needs from the terminal. */
export interface AskHost {
  /** Monotonic clock, in ms. */
  now(): number;
  /** Whether the prompt is empty. */
  isPromptEmpty(): boolean;
  /** Starts an asynchronous action and shows its error. */
  attempt(work: () => Promise<unknown>): void;
}

/** The oldest open question of the conversation, and the time of the last answer. */
export class CurrentAsk {
  readonly #host: AskHost;
  /** Undefined if there is no open question. */
  panel: AskPanel | undefined;
  /** Time of the last answer in this terminal, by the clock `now`, in ms. */
  #answeredAtMs = -Infinity;

  constructor(host: AskHost) {
    this.#host = host;
  }

  /** Shows the oldest question. Returns whether it is another question than before. */
  update(oldestAsk: ApiAsk | undefined, answer: (ask: ApiAsk, reply: AskReply) => Promise<void>): boolean {
    if (oldestAsk?.id === this.panel?.ask.id) return false;
    this.panel = oldestAsk && this.#createPanel(oldestAsk, (reply) => answer(oldestAsk, reply));
    return this.panel !== undefined;
  }

  /** Passes an input to the question. Returns whether the question consumed it. */
  passInput(input: KeyInput): boolean {
    const { panel } = this;
    // This Enter was meant for the previous question.
    if (input.type === "key" && input.name === "enter" && this.#hasAnsweredWithin(DOUBLE_ENTER_PERIOD_MS)) return true;
    if (!panel?.hasKeys) return false;
    if (input.type === "key" && (input.ctrl || input.name === "tab" || input.name === "escape")) return false;
    // The input is no answer: the user is typing a prompt, which receives the keys from now on.
    if (!panel.press(input)) panel.hasKeys = false;
    return panel.hasKeys;
  }

  #createPanel(ask: ApiAsk, answer: (reply: AskReply) => Promise<void>): AskPanel {
    const { now, attempt, isPromptEmpty } = this.#host;
    return new AskPanel(ask, {
      hasKeys: isPromptEmpty(),
      followsAnswer: this.#hasAnsweredWithin(MAX_NEXT_QUESTION_DELAY_MS),
      now,
      answer: (reply) => {
        this.#answeredAtMs = now();
        attempt(() =>
          answer(reply).catch((error: unknown) => {
            if (this.panel?.ask === ask) this.panel.isAnswerSent = false;
            throw error;
          }),
        );
      },
    });
  }

  #hasAnsweredWithin(periodMs: number): boolean {
    return this.#host.now() - this.#answeredAtMs < periodMs;
  }
}
