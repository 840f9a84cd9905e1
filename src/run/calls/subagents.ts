import { RunCancelledError } from "../../ports/errors.js";
import type { Helpers } from "./spawn.js";

/** Those of one call; of most there are none, and what makes them is not loaded. */
export class CallHelpers {
  readonly #make: () => Helpers;
  #helpers: Helpers | undefined;
  #hasEnded = false;

  constructor(make: () => Helpers) {
    this.#make = make;
  }

  /** Throws `RunCancelledError` for a tool that kept its context: nobody would wait for what it begins. */
  made(): Helpers {
    if (this.#hasEnded) throw new RunCancelledError();
    return (this.#helpers ??= this.#make());
  }

  /** Never rejects. */
  async end(): Promise<void> {
    this.#hasEnded = true;
    await this.#helpers?.end();
  }
}
