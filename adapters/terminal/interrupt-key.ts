import type { Prompt } from "./prompt.js";

/** Time after the end of a run in which Ctrl+C was meant for the run and does not clear the prompt, in ms. */
const REACTION_MS = 1_000;

/** The parts of the terminal that Ctrl+C stops, clears or ends. */
export interface InterruptTarget {
  /** The running shell command of the user. */
  readonly shell: { stop: () => void } | undefined;
  readonly conversation: { readonly isRunning: boolean; readonly sender: { stop(): Promise<void> } };
  readonly prompt: Prompt;
  readonly options: { requestExit: () => void };
  attempt(work: () => Promise<unknown>): void;
}

/** Ctrl+C: the first stops the run or clears the prompt, the second quits. */
export class InterruptKey {
  /** Whether the last key was Ctrl+C, so that a second one quits. */
  isExitPending = false;
  readonly #now: () => number;
  #wasBusy = false;
  #idleSinceMs = -Infinity;

  /** `now`: monotonic clock, in ms. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Call this after each change. */
  update({ conversation, shell }: InterruptTarget): void {
    const isBusy = conversation.isRunning || shell !== undefined;
    if (this.#wasBusy && !isBusy) this.#idleSinceMs = this.#now();
    this.#wasBusy = isBusy;
  }

  press(target: InterruptTarget): void {
    const { shell, conversation, prompt, options } = target;
    if (this.isExitPending) return options.requestExit();
    this.isExitPending = true;
    if (shell) shell.stop();
    else if (conversation.isRunning) target.attempt(() => conversation.sender.stop());
    else if (prompt.editor.text !== "" && this.#now() - this.#idleSinceMs >= REACTION_MS) prompt.clear();
  }
}
