import { RunCancelledError } from "../../ports/errors.js";
import type { Subagents } from "./spawn.js";

/** Creates the subagents of one tool call at the first spawn, because most calls spawn none. */
export class LazySubagents {
  readonly #create: () => Subagents;
  #subagents: Subagents | undefined;
  #hasEnded = false;

  constructor(create: () => Subagents) {
    this.#create = create;
  }

  /**
   * Throws `RunCancelledError` if the tool uses its context after the call ended, because no caller would wait for the
   * subagent.
   */
  getOrCreate(): Subagents {
    if (this.#hasEnded) throw new RunCancelledError();
    return (this.#subagents ??= this.#create());
  }

  /** Ends all subagents of the call. Never rejects. */
  async end(): Promise<void> {
    this.#hasEnded = true;
    await this.#subagents?.end();
  }
}
