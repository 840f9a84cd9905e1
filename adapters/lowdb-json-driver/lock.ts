import { mkdirSync, readdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { StoreError } from "gantry";
import { holderState } from "gantry/plugin";
import type { Holder } from "gantry/plugin";
import { isMissing, parsed, textOf } from "./files.js";

/** File in an open driver's folder that says whose it is. */
export const CARD = "process.json";
/** How long one may wait for other processes before giving up, in ms. */
const PATIENCE_MS = 60_000;
/** A lock of another host that was quiet for so long counts as left behind, in ms. */
const ELSEWHERE_MS = 30_000;
const FREE = "free";

/**
 * The one lock of a store: a folder with a token, a file named `free` or after the driver that has it. It is taken,
 * given back and taken from the dead by renaming, of which only one can succeed; the name of a driver that died never
 * comes back, so two that find it dead cannot both have the token.
 */
export class Lock {
  /** `drivers`: the folder with a folder for each open driver, `id` being this one's. */
  constructor(
    readonly folder: string,
    readonly drivers: string,
    readonly id: string,
  ) {
    const made = join(drivers, id, "lock");
    mkdirSync(made, { mode: 0o700 });
    writeFileSync(join(made, FREE), "", { mode: 0o600 });
    try {
      renameSync(made, folder);
    } catch {
      // There is one, with its token in it from the start.
    }
  }

  async take(): Promise<void> {
    const until = Date.now() + PATIENCE_MS;
    for (let attempt = 0; !this.#isTaken(); attempt++) {
      if (Date.now() > until) throw new StoreError(`session store: ${this.folder} is held; is a process stuck?`);
      await sleep(1 + Math.random() * Math.min(25, 2 ** Math.min(attempt, 5)));
    }
  }

  /** Never fails: a token that could not be given back is still ours the next time. */
  readonly give = (): boolean => this.#pass(this.id, FREE);

  #isTaken(): boolean {
    if (this.#pass(FREE, this.id)) return true;
    const tokens = readdirSync(this.folder);
    if (tokens.includes(this.id)) return true;
    return tokens.some((other) => other !== FREE && this.#isLeft(other) && this.#pass(other, this.id));
  }

  #pass(from: string, to: string): boolean {
    try {
      renameSync(join(this.folder, from), join(this.folder, to));
      return true;
    } catch (error) {
      if (to === FREE || isMissing(error)) return false;
      throw error;
    }
  }

  /** Whether the driver that has the token is gone for good. */
  #isLeft(id: string): boolean {
    const holder = parsed<Holder>(textOf(join(this.drivers, id, CARD)));
    const state = holder ? holderState(holder) : "dead";
    if (state !== "elsewhere") return state === "dead";
    // Renaming touches ctime: a sign of life.
    const token = statSync(join(this.folder, id), { throwIfNoEntry: false });
    return token !== undefined && Date.now() - token.ctimeMs > ELSEWHERE_MS;
  }
}
