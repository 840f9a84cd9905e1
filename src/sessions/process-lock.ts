import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, utimes, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { newId } from "../base/ids.js";
import type { LeaseHolder } from "../ports/holder.js";
import { currentHolder, holderState } from "./holder.js";

/** Token name of a lock without a holder. */
const FREE_TOKEN_NAME = "free";
/** Interval at which a holder updates the time of its token, for processes of other hosts and containers. */
const HEARTBEAT_INTERVAL_MS = 2_000;
/** Time without an update after which a holder on another host counts as dead. */
const MAX_SILENCE_MS = 10_000;
/** Number of polls of another host's token during the maximum silence. */
const POLLS_PER_SILENCE = 50;

/**
 * Lock for one process at a time. The lock is a folder with one file, the token, named `free` or after the holder. A
 * rename takes the lock, releases it, or takes it from a dead process; a rename succeeds for only one process. Holder
 * names are never reused, so two processes that find the same holder dead cannot both take the token.
 */
export class ProcessLock {
  readonly #tokenName: string;
  #heartbeat: NodeJS.Timeout | undefined;
  #isLost = false;

  private constructor(readonly folder: string) {
    const id = newId();
    this.#tokenName = toTokenName(currentHolder(id));
    if (!existsSync(folder)) createLock(folder, `${folder}-${id}`);
  }

  /**
   * Takes the lock. While another live process holds the lock, calls `onHeld` and tries again. Rejects with the error
   * of `onHeld`, or with the system's error.
   */
  static async acquire(
    folder: string,
    onHeld: (holder: LeaseHolder) => void | Promise<void>,
    maxSilenceMs = MAX_SILENCE_MS,
  ): Promise<ProcessLock> {
    // Without the name, which the build would rename.
    const lock = new this(folder);
    while (!lock.#rename(FREE_TOKEN_NAME, lock.#tokenName)) {
      const [name = ""] = readdirSync(folder);
      if (name === FREE_TOKEN_NAME) continue;
      if (await lock.#isDead(name, maxSilenceMs)) lock.#rename(name, FREE_TOKEN_NAME);
      else if (existsSync(join(folder, name))) await onHeld(parseTokenName(name));
    }
    lock.#heartbeat = setInterval(() => lock.#sendHeartbeat(), HEARTBEAT_INTERVAL_MS).unref();
    return lock;
  }

  /** Whether another process has taken the lock, for instance after this process was suspended for a long time. */
  get isLost(): boolean {
    return this.#isLost;
  }

  release(): void {
    clearInterval(this.#heartbeat);
    this.#rename(this.#tokenName, FREE_TOKEN_NAME);
  }

  async #isDead(name: string, maxSilenceMs: number): Promise<boolean> {
    const state = holderState(parseTokenName(name));
    if (state !== "remote") return state === "dead";
    // Compares only times of the file system, because clocks of hosts differ.
    const readTimeMs = (): number | undefined => statSync(join(this.folder, name), { throwIfNoEntry: false })?.mtimeMs;
    const initialTimeMs = readTimeMs();
    const deadlineMs = performance.now() + maxSilenceMs;
    while (readTimeMs() === initialTimeMs && performance.now() < deadlineMs)
      await sleep(maxSilenceMs / POLLS_PER_SILENCE);
    return readTimeMs() === initialTimeMs;
  }

  #sendHeartbeat(): void {
    const now = new Date();
    utimes(join(this.folder, this.#tokenName), now, now, (error) => (this.#isLost = error?.code === "ENOENT"));
  }

  /** Renames the token. Returns false if the lock has no token `oldName`. */
  #rename(oldName: string, newName: string): boolean {
    try {
      renameSync(join(this.folder, oldName), join(this.folder, newName));
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
      throw error;
    }
  }
}

/** Creates the lock's folder together with the token, atomically. Keeps an existing folder. */
function createLock(folder: string, newFolder: string): void {
  mkdirSync(newFolder, { mode: 0o700 });
  writeFileSync(join(newFolder, FREE_TOKEN_NAME), "", { mode: 0o600 });
  try {
    renameSync(newFolder, folder);
  } catch (error) {
    rmSync(newFolder, { recursive: true });
    if (!existsSync(folder)) throw error;
  }
}

/** Encodes a holder as a file name. */
function toTokenName({ host, boot, pid, started, id }: LeaseHolder): string {
  return [host, boot, `${pid}`, started, id].map(encodeURIComponent).join(",");
}

function parseTokenName(name: string): LeaseHolder {
  const [host = "", boot = "", pid, started = "", id = ""] = name.split(",").map(decodeURIComponent);
  return { host, boot, pid: Number(pid), started, id };
}
