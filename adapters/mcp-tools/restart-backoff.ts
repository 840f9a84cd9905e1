import { Fault } from "./connection.js";

/** What is waited before a server that failed is started again, by how often it has, in ms. */
const PAUSES_MS = [0, 0, 1_000, 3_000, 10_000, 30_000] as const;
/** Also before one that was not ready in time: each run would be held as long again, in ms. */
const LATE_MS = 120_000;
/** One that lived so long has not failed because it was started, in ms. */
const LIVED_MS = 30_000;

/** How often a server failed in a row, and what is waited for; outlives those that use it. */
export class Pauses {
  #failed = 0;
  #at = 0;
  #why = "";
  #late = false;

  failed(why: string): void {
    this.#failed += 1;
    this.#at = Date.now();
    this.#why = why;
    this.#late = false;
  }

  late(): void {
    this.failed("it was not ready in time");
    this.#late = true;
  }

  lived(ms: number): void {
    if (ms > LIVED_MS) this.#failed = 0;
  }

  /** Throws what is wrong, as long as it is not to be tried again. */
  check(): void {
    const pause = this.#late ? LATE_MS : PAUSES_MS[Math.min(this.#failed, PAUSES_MS.length - 1)]!;
    const left = this.#at + pause - Date.now();
    if (left > 0) throw new Fault(`${this.#why} (it is tried again in ${Math.ceil(left / 1000)} s)`);
  }
}
