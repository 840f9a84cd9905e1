import type { Bus } from "../base/bus.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { FileHistory } from "../ports/file-history.js";
import type { Logger } from "../ports/logger.js";
import type { SessionDriver } from "../ports/session-driver.js";
import { Housekeeping } from "../sessions/housekeeping.js";

/** Options of `AgentStore`. */
export interface AgentStoreOptions {
  /** Undefined: sessions are stored in memory. */
  driver: SessionDriver | undefined;
  /** Receives an event for each session that housekeeping deletes. */
  bus: Bus<BusEvents>;
  logger: Logger;
  fileHistory: FileHistory | undefined;
  /** Aborted when the agent closes. A store that opens after that gets no housekeeping. */
  closeSignal: AbortSignal;
}

/** The store of one agent. Opens at the first use, runs housekeeping in the background, and closes with the agent. */
export class AgentStore {
  readonly #options: AgentStoreOptions;
  #driver: SessionDriver | undefined;
  #openPromise: Promise<SessionDriver> | undefined;
  #housekeeping: Housekeeping | undefined;

  constructor(options: AgentStoreOptions) {
    this.#options = options;
    this.#driver = options.driver;
  }

  /** Opens the store if necessary. Rejects with `StoreError`; the next call tries again. */
  get(): Promise<SessionDriver> {
    return (this.#openPromise ??= this.#open().catch((error: unknown) => {
      this.#openPromise = undefined;
      throw error;
    }));
  }

  /** Stops the background work on the store. */
  async stopHousekeeping(): Promise<void> {
    await this.#housekeeping?.close();
  }

  /** Closes the store, if it was opened. */
  async close(): Promise<void> {
    const driver = await this.#openPromise?.catch(() => undefined);
    await driver?.close();
  }

  async #open(): Promise<SessionDriver> {
    const driver = (this.#driver ??= new (await import("../memory-driver/memory-driver.js")).MemoryDriver());
    await driver.open();
    if (!this.#options.closeSignal.aborted) this.#housekeeping = this.#startHousekeeping(driver);
    return driver;
  }

  #startHousekeeping(driver: SessionDriver): Housekeeping {
    const { bus, logger, fileHistory } = this.#options;
    const onDeleted = (id: string) => bus.emit("session.deleted", { ids: [id] });
    return new Housekeeping({ driver, logger, onDeleted, fileHistory });
  }
}
