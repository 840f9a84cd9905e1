import { StoreError } from "gantry";
import { ProcessLock } from "gantry/plugin";

/** The lock of a store, for one process at a time. */
export class StoreLock {
  readonly #lock: ProcessLock;

  private constructor(lock: ProcessLock) {
    this.#lock = lock;
  }

  /**
   * Takes the lock. Rejects with `StoreError` if another live process holds the lock. `store`: the store's path, for
   * the error.
   */
  static async acquire(folder: string, store: string, maxSilenceMs?: number): Promise<StoreLock> {
    const refuse = ({ pid, host }: { pid: number; host: string }): never => {
      throw new StoreError(
        `session store ${store}: the process ${pid} on ${host.split(" ")[0]} has it open, and the json driver is for ` +
          'one process at a time; stop that process, or set session.driver to "sqlite" for several processes',
      );
    };
    return new StoreLock(await ProcessLock.acquire(folder, refuse, maxSilenceMs));
  }

  /** Throws `StoreError` if another process has taken the lock. */
  throwIfLost(): void {
    if (!this.#lock.isLost) return;
    throw new StoreError(`session store: this process has lost the lock ${this.#lock.folder}; restart it`);
  }

  release(): void {
    this.#lock.release();
  }
}
