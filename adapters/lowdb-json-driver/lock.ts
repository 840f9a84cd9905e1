import { mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { StoreError, holderState } from "gantry";
import type { Holder } from "gantry";
import { isMissing, textOf } from "./files.js";

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
  /** `drivers`: the folder with a folder for each open driver. */
  constructor(
    readonly folder: string,
    readonly drivers: string,
    readonly self: Holder,
  ) {}

  async take(): Promise<void> {
    const since = Date.now();
    for (let attempt = 0; !this.#isTaken(); attempt++) {
      if (Date.now() - since > PATIENCE_MS)
        throw new StoreError(
          `session store: ${this.folder} has been held for ${PATIENCE_MS / 1000} s; is a process stuck?`,
        );
      await sleep(1 + Math.random() * Math.min(25, 2 ** Math.min(attempt, 5)));
    }
  }

  /** Never fails: a token that could not be given back is still ours the next time. */
  give(): void {
    this.#pass(this.self.id, FREE);
  }

  #isTaken(): boolean {
    const { id } = this.self;
    if (this.#pass(FREE, id)) return true;
    try {
      const tokens = readdirSync(this.folder);
      if (tokens.includes(id)) return true;
      return tokens.some((other) => other !== FREE && this.#isLeft(other) && this.#pass(other, id));
    } catch (error) {
      if (!isMissing(error)) throw error;
      this.#make();
      return false;
    }
  }

  /** With its token in it from the start; of several that try, one puts its folder in place. */
  #make(): void {
    const made = join(this.drivers, this.self.id, "lock");
    mkdirSync(made, { mode: 0o700 });
    writeFileSync(join(made, FREE), "", { mode: 0o600 });
    try {
      renameSync(made, this.folder);
    } catch {
      rmSync(made, { recursive: true });
    }
  }

  #pass(from: string, to: string): boolean {
    try {
      renameSync(join(this.folder, from), join(this.folder, to));
      return true;
    } catch (error) {
      if (isMissing(error) || to === FREE) return false;
      throw error;
    }
  }

  /** Whether the driver that has the token is gone for good. */
  #isLeft(id: string): boolean {
    const holder = holderIn(join(this.drivers, id));
    const state = holder ? holderState(holder) : "dead";
    if (state !== "elsewhere") return state === "dead";
    // Renaming touches ctime: a sign of life.
    const token = statSync(join(this.folder, id), { throwIfNoEntry: false });
    return token !== undefined && Date.now() - token.ctimeMs > ELSEWHERE_MS;
  }
}

/** Whose folder it is; undefined when it is gone, or was left before it could say. */
export function holderIn(folder: string): Holder | undefined {
  try {
    return JSON.parse(textOf(join(folder, CARD)) ?? "") as Holder;
  } catch {
    return undefined;
  }
}
