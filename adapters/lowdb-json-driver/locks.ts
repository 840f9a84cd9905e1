import { link, mkdir, readFile, readdir, stat, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { StoreError } from "gantry";
import { systemCode, unlessMissing } from "./errors.js";
import { stateOf } from "./holder.js";
import type { Process } from "./holder.js";

/** How long one may wait for other processes before giving up, in ms. */
const PATIENCE_MS = 60_000;
/** A lock of another host that was quiet for so long counts as left behind, in ms. */
const ELSEWHERE_MS = 30_000;

/**
 * Locks between processes, each a folder of numbered files. The greatest number is the lock: it is taken with the next
 * one, which only one can create, once `<number>.free` lies beside it or its holder is dead. A number is removed only
 * when there is a greater one, so a lock that was left behind is never broken by two at once.
 */
export class Locks {
  readonly #folder: string;
  readonly #self: Process;
  /** A file that says who we are; links to it are whole from the start. */
  readonly #card: string;
  readonly #queues = new Map<string, Promise<unknown>>();

  constructor(folder: string, self: Process, card: string) {
    this.#folder = folder;
    this.#self = self;
    this.#card = card;
  }

  /** Do `work` while nobody else does work under that name, first come, first served within this driver. */
  async with<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.#queues.get(name) ?? Promise.resolve();
    const mine = before.then(() => this.#locked(name, work));
    const settled = mine.catch(() => undefined);
    this.#queues.set(name, settled);
    try {
      return await mine;
    } finally {
      if (this.#queues.get(name) === settled) this.#queues.delete(name);
    }
  }

  /** Resolves when nobody here waits or works. */
  async idle(): Promise<void> {
    while (this.#queues.size > 0) await Promise.all(this.#queues.values());
  }

  async #locked<T>(name: string, work: () => Promise<T>): Promise<T> {
    const folder = join(this.#folder, name);
    const number = await this.#take(folder);
    try {
      return await work();
    } finally {
      // Never turns a success into a failure: a lock that we could not give back is ours to take again.
      await this.#place(join(folder, `${number}.free`)).catch(() => undefined);
    }
  }

  async #take(folder: string): Promise<number> {
    const since = Date.now();
    for (let attempt = 0; ; attempt++) {
      const files = await unlessMissing(readdir(folder));
      if (!files) await mkdir(folder, { recursive: true, mode: 0o700 });
      const last = greatest(files ?? []);
      if (last === 0 || files?.includes(`${last}.free`) || (await this.#isLeft(join(folder, `${last}`)))) {
        const mine = last + 1;
        if (await this.#place(join(folder, `${mine}`))) {
          const now = await readdir(folder);
          if (greatest(now) === mine) {
            const old = now.filter((file) => Number.parseInt(file, 10) < mine);
            await Promise.all(old.map((file) => unlessMissing(unlink(join(folder, file)))));
            return mine;
          }
          // We looked too long ago: others have come and gone meanwhile.
          await unlessMissing(unlink(join(folder, `${mine}`)));
        }
      }
      if (Date.now() - since > PATIENCE_MS) {
        throw new StoreError(
          `session store: another process has held ${folder} for ${PATIENCE_MS / 1000} s; is it stuck?`,
        );
      }
      await sleep(1 + Math.random() * Math.min(25, 2 ** Math.min(attempt, 5)));
    }
  }

  /** Create a file that says who we are; false when it exists. */
  async #place(path: string): Promise<boolean> {
    try {
      await link(this.#card, path);
      return true;
    } catch (error) {
      const code = systemCode(error);
      if (code === "EEXIST") return false;
      if (code !== "EPERM" && code !== "ENOTSUP" && code !== "ENOSYS" && code !== "EMLINK") throw error;
    }
    // A file system without hard links.
    try {
      await writeFile(path, JSON.stringify(this.#self), { flag: "wx", mode: 0o600 });
      return true;
    } catch (error) {
      if (systemCode(error) === "EEXIST") return false;
      throw error;
    }
  }

  /** Whether the holder of a lock is gone for good. */
  async #isLeft(path: string): Promise<boolean> {
    const text = await unlessMissing(readFile(path, "utf8"));
    const info = await unlessMissing(stat(path));
    if (text === undefined || !info) return false;
    let holder: Process | undefined;
    try {
      holder = JSON.parse(text) as Process;
    } catch {
      holder = undefined;
    }
    // Ours: left when giving it back failed, as the queue above lets only one of us in.
    if (holder?.instance === this.#self.instance) return true;
    const state = holder ? await stateOf(holder, this.#self) : "elsewhere";
    // Linking and unlinking touches ctime: a sign of life of that driver.
    return state === "dead" || (state === "elsewhere" && Date.now() - info.ctimeMs > ELSEWHERE_MS);
  }
}

function greatest(files: readonly string[]): number {
  return files.reduce((most, file) => Math.max(most, Number.parseInt(file, 10) || 0), 0);
}
