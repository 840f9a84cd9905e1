import type { Ask } from "../../ports/ask.js";
import { hasCode, RunCancelledError } from "../../ports/errors.js";
import type { Logger } from "../../ports/logger.js";
import type { Instruction } from "../../ports/run.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import { notifierOf } from "../../sessions/polling-notifier.js";

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
  #unsubscribe = (): void => undefined;
  readonly #waiting = new Map<string, (ask: Ask) => void>();
  /** Not yet put before the model. */
  #steering: Instruction[] = [];
  /** Instructions that were seen, so that each is taken once. */
  readonly #seen = new Set<string>();
  /** Those who asked for the end may wait for it no more. */
  readonly #cancels: string[] = [];
  #looking: Promise<void> | undefined;
  #again = false;
  /** What the end of the run left of its chain's. */
  #left: readonly Instruction[] | undefined;

  constructor(options: InboxOptions) {
    this.#options = options;
  }

  /** Hear from now on, as the run is in the store: a session that is not there is one that was deleted. */
  listen(): void {
    const { store, sessionId } = this.#options;
    this.#unsubscribe = notifierOf(store).subscribe(sessionId, () => void this.look());
  }

  /** Whether something waits to be put before the model. */
  get isSteered(): boolean {
    return this.#steering.length > 0;
  }

  /** What is to be put before the model, in the order in which it came; whoever takes it sees to it. */
  takeSteering(): Instruction[] {
    return this.#steering.splice(0);
  }

  /** Ids of what asked for the end and was seen. */
  get cancels(): readonly string[] {
    return [...this.#cancels];
  }

  /** The run has ended in the store, and this is what was left for its chain then. */
  isLeft(instructions: readonly Instruction[]): void {
    this.#left = instructions;
  }

  /** Takes back what nobody follows any more, and tells what was to be put before a model. Rejects as the driver. */
  async leftOver(): Promise<Instruction[]> {
    const { store, sessionId, runId } = this.#options;
    // Where the end was not stored, whoever told the run something could not know that it was over.
    const all = this.#left ?? (await store.instructions(sessionId));
    const left = all.filter((one) => one.runId === runId);
    const taken = await withdraw(store, left);
    return taken.filter(({ kind }) => kind === "steer");
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

  /** Look into the store for what came; a run whose session is gone ends. Never rejects. */
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
        const [ask] = await store.asks({ id, limit: 1 });
        if (ask && ask.state !== "open") this.answered(ask);
      }
    } catch (error) {
      if (hasCode(error, "session_not_found")) cancel.abort(error);
      else logger.warn("what others ask of a run could not be read; trying again with the next hint", { error });
    }
  }
}

/** Takes back instructions of one chain; returns those that nobody followed or took back before. Rejects with `StoreError`. */
export async function withdraw(store: SessionDriver, instructions: readonly Instruction[]): Promise<Instruction[]> {
  const [first] = instructions;
  if (!first) return [];
  try {
    const followed = instructions.map(({ id }) => id);
    const { consumedInstructions } = await store.write(first.sessionId, { fence: null, sync: true, followed });
    return instructions.filter(({ id }) => consumedInstructions.includes(id));
  } catch (error) {
    if (hasCode(error, "session_not_found")) return [];
    throw error;
  }
}
