import { RunCancelledError } from "../../ports/errors.js";
import type { Subagents } from "./spawn.js";

/** The subagents of one tool call. Their code is loaded only if the call spawns any, which most calls do not. */
export class CallSubagents {
  readonly #make: () => Subagents;
  #subagents: Subagents | undefined;
  #hasEnded = false;

  constructor(make: () => Subagents) {
    this.#make = make;
  }

  /**
   * Throws `RunCancelledError` if the tool uses its context after the call ended, because no caller would wait for the
   * subagent.
   */
  getOrCreate(): Subagents {
    if (this.#hasEnded) throw new RunCancelledError();
    return (this.#subagents ??= this.#make());
  }

  /** Ends all subagents of the call. Never rejects. */
  async end(): Promise<void> {
    this.#hasEnded = true;
    await this.#subagents?.end();
  }
}
