import type { Ask } from "../../ports/ask.js";
import { hasCode, RunCancelledError } from "../../ports/errors.js";
import type { Logger } from "../../ports/logger.js";
import type { Instruction } from "../../ports/run.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import { notifierOf } from "../../sessions/polling-notifier.js";

/** The members of a run that its inbox uses. */
export interface InboxOptions {
  runId: string;
  /** Id of the chain's first session. */
  sessionId: string;
  store: SessionDriver;
  /** Aborted to end the run. */
  cancel: AbortController;
  logger: Logger;
}

/**
 * Instructions and answers for an active run from any process: cancel, steering text, calls to move to the background,
 * and answers to its asks.
 */
export class Inbox {
  readonly #options: InboxOptions;
  #unsubscribe = (): void => undefined;
  readonly #answerCallbacks = new Map<string, (ask: Ask) => void>();
  /** Controllers of the running calls, by call id. */
  readonly #backgroundControllers = new Map<string, AbortController>();
  /** Steering instructions that are not in the conversation yet. */
  #steering: Instruction[] = [];
  /** Ids of instructions already received, so that each is processed once. */
  readonly #receivedIds = new Set<string>();
  /** Ids of the cancel instructions already received. */
  readonly #cancelIds: string[] = [];
  #currentRead: Promise<void> | undefined;
  #needsAnotherRead = false;
  /** Instructions of the chain that remained when the end of the run was stored. Undefined before that. */
  remainingInstructions: readonly Instruction[] | undefined;

  constructor(options: InboxOptions) {
    this.#options = options;
  }

  /** Starts listening. Call this after the run is stored: a missing session then means that the session was deleted. */
  listen(): void {
    const { store, sessionId } = this.#options;
    this.#unsubscribe = notifierOf(store).subscribe(sessionId, () => void this.read());
  }

  get hasSteering(): boolean {
    return this.#steering.length > 0;
  }

  /** Takes the waiting steering instructions, in order of arrival. The caller must add them to the conversation. */
  takeSteering(): Instruction[] {
    return this.#steering.splice(0);
  }

  /** Ids of the cancel instructions already received. */
  get cancelIds(): readonly string[] {
    return [...this.#cancelIds];
  }

  /** Returns the run's instructions that remained at its end. Rejects like the driver. */
  async readRemaining(): Promise<Instruction[]> {
    const { store, sessionId, runId } = this.#options;
    // If the final write failed, senders could not know that the run had ended: read the instructions again.
    const remainingInstructions = this.remainingInstructions ?? (await store.instructions(sessionId));
    return remainingInstructions.filter((instruction) => instruction.runId === runId);
  }

  /**
   * Takes the steering instructions that ended runs of the chain did not read, and adds them to those of this run. Call
   * this when the run is stored. Rejects like the driver.
   */
  async readLateSteering(): Promise<void> {
    const { store, sessionId, runId } = this.#options;
    const instructions = await store.instructions(sessionId);
    if (instructions.length === 0) return;
    const { takeLateSteering } = await import("./late-steering.js");
    this.#steering.push(...(await takeLateSteering(store, instructions, runId)));
  }

  /** Returns a promise of the answered ask, and a function that stops the wait. The ask must belong to this run. */
  waitForAnswer(askId: string): [answer: Promise<Ask>, stopWaiting: () => void] {
    const answer = new Promise<Ask>((resolve) => this.#answerCallbacks.set(askId, resolve));
    return [answer, () => void this.#answerCallbacks.delete(askId)];
  }

  /** Returns a signal that aborts when a person moves the call to the background, and a function that stops the wait. */
  waitForBackground(callId: string): [signal: AbortSignal, stopWaiting: () => void] {
    const controller = new AbortController();
    this.#backgroundControllers.set(callId, controller);
    return [controller.signal, () => void this.#backgroundControllers.delete(callId)];
  }

  /** Delivers an answer that was given in this process. */
  deliverAnswer(ask: Ask): void {
    this.#answerCallbacks.get(ask.id)?.(ask);
  }

  /** Reads new instructions and answers from the store. Ends the run if its session was deleted. Never rejects. */
  read(): Promise<void> {
    // The read in progress may miss changes, so another read follows.
    if (this.#currentRead) this.#needsAnotherRead = true;
    return (this.#currentRead ??= this.#readOnce().finally(() => {
      this.#currentRead = undefined;
      if (this.#needsAnotherRead) {
        this.#needsAnotherRead = false;
        void this.read();
      }
    }));
  }

  /** Stops listening, and waits for the read in progress. Idempotent. */
  async close(): Promise<void> {
    this.#unsubscribe();
    this.#unsubscribe = () => undefined;
    this.#answerCallbacks.clear();
    this.#backgroundControllers.clear();
    await this.#currentRead;
  }

  async #readOnce(): Promise<void> {
    const { store, sessionId, runId, cancel, logger } = this.#options;
    try {
      for (const instruction of await store.instructions(sessionId)) {
        if (instruction.runId !== runId || this.#receivedIds.has(instruction.id)) continue;
        this.#receivedIds.add(instruction.id);
        if (instruction.kind === "cancel") {
          this.#cancelIds.push(instruction.id);
          cancel.abort(new RunCancelledError());
        } else if (instruction.kind === "background") {
          for (const [callId, controller] of this.#backgroundControllers)
            if (instruction.text === "" || instruction.text === callId) controller.abort();
          await withdrawInstructions(store, [instruction]);
        } else this.#steering.push(instruction);
      }
      for (const id of [...this.#answerCallbacks.keys()]) {
        const [ask] = await store.asks({ id, limit: 1 });
        if (ask && ask.state !== "open") this.deliverAnswer(ask);
      }
    } catch (error) {
      if (hasCode(error, "session_not_found")) cancel.abort(error);
      else logger.warn("pending instructions could not be read; retrying with the next notification", { error });
    }
  }
}

/**
 * Withdraws instructions of one chain. Returns the instructions that were not consumed or withdrawn before. Rejects
 * with `StoreError`.
 */
export async function withdrawInstructions(
  store: SessionDriver,
  instructions: readonly Instruction[],
): Promise<Instruction[]> {
  const [firstInstruction] = instructions;
  if (!firstInstruction) return [];
  try {
    const ids = instructions.map(({ id }) => id);
    const { consumedInstructions } = await store.write(firstInstruction.sessionId, {
      fence: null,
      sync: true,
      consumedInstructions: ids,
    });
    return instructions.filter(({ id }) => consumedInstructions.includes(id));
  } catch (error) {
    if (hasCode(error, "session_not_found")) return [];
    throw error;
  }
}
