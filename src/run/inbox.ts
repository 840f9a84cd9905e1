import type { Ask } from "../ports/ask.js";
import { RunCancelledError } from "../ports/errors.js";
import type { Logger } from "../ports/logger.js";
import type { Instruction } from "../ports/run.js";
import type { SessionDriver } from "../ports/session-driver.js";

/** What an inbox needs of its run. */
export interface InboxOptions {
  runId: string;
  /** The chain's first session. */
  sessionId: string;
  store: SessionDriver;
  /** Ends the run. */
  cancel: AbortController;
  logger: Logger;
}

/** What others ask of a run under way, from whichever process: to end, to read something, to go on with an answer. */
export class Inbox {
  readonly #options: InboxOptions;
  readonly #unsubscribe: () => void;
  readonly #waiting = new Map<string, (ask: Ask) => void>();
  /** Not yet put before the model. */
  #steering: Instruction[] = [];
  /** Instructions that were seen, so that each is taken once. */
  readonly #seen = new Set<string>();
  /** Those who asked for the end may wait for it no more. */
  readonly #cancels: string[] = [];
  #looking: Promise<void> | undefined;
  #again = false;

  constructor(options: InboxOptions) {
    this.#options = options;
    this.#unsubscribe = options.store.notifier.subscribe(options.sessionId, () => void this.look());
  }

  /** Whether something waits to be put before the model. */
  get isSteered(): boolean {
    return this.#steering.length > 0;
  }

  /** What is to be put before the model, in the order in which it came; whoever takes it sees to it. */
  takeSteering(): Instruction[] {
    return this.#steering.splice(0);
  }

  /** Tells, and takes back, what nobody puts before a model any more. */
  async leftOver(): Promise<Instruction[]> {
    const { store } = this.#options;
    await this.look();
    const left = this.takeSteering();
    const taken = await Promise.all(left.map(({ id }) => store.withdraw(id)));
    return left.filter((_, i) => taken[i]);
  }

  /** Resolves with an ask of this run when it was answered; the second function ends the waiting. */
  answerOf(askId: string): [answer: Promise<Ask>, forget: () => void] {
    const answer = new Promise<Ask>((resolve) => this.#waiting.set(askId, resolve));
    return [answer, () => void this.#waiting.delete(askId)];
  }

  /** An ask was answered in this process. */
  answered(ask: Ask): void {
    this.#waiting.get(ask.id)?.(ask);
  }

  /** Look into the store for what came. Never rejects. */
  look(): Promise<void> {
    // What comes while it looks may be missed by that look.
    if (this.#looking) this.#again = true;
    return (this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
      if (this.#again) {
        this.#again = false;
        void this.look();
      }
    }));
  }

  /** Hear nothing more, and wait for what is under way. */
  async close(): Promise<void> {
    this.#unsubscribe();
    this.#waiting.clear();
    await this.#looking;
    const { store, logger } = this.#options;
    for (const id of this.#cancels)
      await store.withdraw(id).catch((error: unknown) => logger.debug("a cancel was not taken back", { error }));
  }

  async #look(): Promise<void> {
    const { store, sessionId, runId, cancel, logger } = this.#options;
    try {
      for (const instruction of await store.instructions(sessionId)) {
        if (instruction.runId !== runId || this.#seen.has(instruction.id)) continue;
        this.#seen.add(instruction.id);
        if (instruction.kind === "cancel") {
          this.#cancels.push(instruction.id);
          cancel.abort(new RunCancelledError());
        } else this.#steering.push(instruction);
      }
      for (const id of [...this.#waiting.keys()]) {
        const ask = await store.ask(id);
        if (ask && ask.state !== "open") this.answered(ask);
      }
    } catch (error) {
      logger.warn("what others ask of a run could not be read; trying again with the next hint", { error });
    }
  }
}
