import { signal, type ReadonlySignal } from "@preact/signals";
import { PendingSteers, type GantryClient, type PendingSteer, type SessionMirror } from "gantry/client";
import { readStoredSteers, storeSteers } from "./stored-steers.js";

/** The instructions that this page has sent to a session, until the run has read or returned them. */
export class SessionSteers {
  readonly #sessionId: string;
  readonly #mirror: SessionMirror;
  readonly #closeSignal: AbortSignal;
  readonly #steers: PendingSteers;
  readonly #pending = signal<readonly PendingSteer[]>([]);
  readonly #returnedTexts = signal<readonly string[]>([]);

  constructor(sessionId: string, client: GantryClient, mirror: SessionMirror, closeSignal: AbortSignal) {
    this.#sessionId = sessionId;
    this.#mirror = mirror;
    this.#closeSignal = closeSignal;
    this.#steers = new PendingSteers(client, readStoredSteers(sessionId));
    this.#pending.value = this.#steers.all;
  }

  /** Instructions that the run has not read yet, oldest first. */
  get pending(): ReadonlySignal<readonly PendingSteer[]> {
    return this.#pending;
  }

  /** Texts that a stopped run did not read, until `takeReturnedTexts`. */
  get returnedTexts(): ReadonlySignal<readonly string[]> {
    return this.#returnedTexts;
  }

  /** Returns the texts of `returnedTexts` and clears the signal. */
  takeReturnedTexts(): readonly string[] {
    const texts = this.#returnedTexts.peek();
    if (texts.length > 0) this.#returnedTexts.value = [];
    return texts;
  }

  /** Sends an instruction to the current run. Rejects with the client's errors. */
  async send(text: string): Promise<void> {
    await this.#steers.send(this.#sessionId, text, this.#mirror);
    void this.settle();
  }

  /** Removes the instructions that the run has read, and returns those of a stopped run to `returnedTexts`. */
  async settle(): Promise<void> {
    const settlement = this.#steers.settle(this.#mirror, { signal: this.#closeSignal });
    this.#updatePending();
    const texts = await settlement;
    this.#updatePending();
    if (texts.length > 0) this.#returnedTexts.value = [...this.#returnedTexts.peek(), ...texts];
  }

  #updatePending(): void {
    if (this.#pending.peek() === this.#steers.all) return;
    this.#pending.value = this.#steers.all;
    storeSteers(this.#sessionId, this.#steers.all);
  }
}
