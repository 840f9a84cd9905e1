import { setTimeout as sleep } from "node:timers/promises";
import { LeaseLostError, SessionBusyError, SessionNotFoundError } from "../ports/errors.js";
import { holderState, thisHolder } from "./holder.js";
import type { Logger } from "../ports/logger.js";
import type { Holder } from "../ports/holder.js";
import type { Lease, SessionDriver, StoredRun } from "../ports/session-driver.js";

/** A holder that does not renew for so long is taken for gone, wherever it runs. */
export const LEASE_TTL_MS = 30_000;
const RENEW_MS = 10_000;
/** Waits, in ms, between the attempts to give a lease back; the last attempt has none behind it. */
const GIVE_BACK_MS = [50, 250, undefined] as const;

/** Holders of this process whose lease could not be given back; forgotten when it has run out by itself. */
const buried = new Set<string>();

function bury(holder: Holder): void {
  buried.add(holder.id);
  setTimeout(() => buried.delete(holder.id), 2 * LEASE_TTL_MS).unref();
}

/** Whether a holder is known to be dead: one of our own that has ended, or a process that is no more. */
export function isGone(holder: Holder): boolean {
  return buried.has(holder.id) || holderState(holder) === "dead";
}

/** Whether somebody still holds a run that is stored as going on. */
export function goesOn({ holder }: StoredRun): boolean {
  return holder !== null && !isGone(holder);
}

/** The right to write to a chain, renewed until it is given back or lost. */
export class HeldLease {
  readonly fence: number;
  /** Of the chain's lease before this one, where the store knows it. */
  readonly previous: number | undefined;
  readonly #driver: SessionDriver;
  readonly #onLost: (reason: Error) => void;
  readonly #timer: NodeJS.Timeout;
  readonly #logger: Logger;
  #lease: Lease;
  #renewing: Promise<void> = Promise.resolve();
  #released = false;

  /**
   * `onLost` hears why, should the right go to another or the session be deleted. Rejects with `SessionBusyError` when
   * somebody else has it who is not known to be dead.
   */
  static async take(
    driver: SessionDriver,
    rootId: string,
    logger: Logger,
    onLost: (reason: Error) => void = () => undefined,
  ): Promise<HeldLease> {
    const holder = thisHolder();
    for (let dead: number | undefined; ;) {
      const lease = await driver.lease(rootId, holder, LEASE_TTL_MS, dead === undefined ? {} : { replacing: dead });
      if (!("heldBy" in lease)) return new HeldLease(driver, lease, logger, onLost);
      const rival = lease.heldBy;
      if (rival.fence === dead || !isGone(rival.holder)) throw new SessionBusyError();
      dead = rival.fence;
    }
  }

  private constructor(driver: SessionDriver, lease: Lease, logger: Logger, onLost: (reason: Error) => void) {
    this.#driver = driver;
    this.#lease = lease;
    this.#logger = logger;
    this.#onLost = onLost;
    this.fence = lease.fence;
    this.previous = lease.previous;
    this.#timer = setInterval(() => {
      this.#renewing = this.#renew();
    }, RENEW_MS);
    this.#timer.unref();
  }

  /** As `release`, tried again, and never rejects: this process knows a lease that it could not give back, for others it runs out. */
  async giveBack(): Promise<void> {
    for (const wait of GIVE_BACK_MS) {
      try {
        await this.release();
        return;
      } catch (error) {
        bury(this.#lease.holder);
        if (wait === undefined) this.#logger.warn("a lease was not given back; it runs out by itself", { error });
        else await sleep(wait);
      }
    }
  }

  async release(): Promise<void> {
    this.#released = true;
    clearInterval(this.#timer);
    await this.#renewing;
    await this.#driver.release(this.#lease);
  }

  async #renew(): Promise<void> {
    try {
      const lease = await this.#driver.lease(this.#lease.rootId, this.#lease.holder, LEASE_TTL_MS);
      if (this.#released) return;
      if ("heldBy" in lease) this.#onLost(new LeaseLostError(this.#lease.rootId));
      else if (lease.fence !== this.fence) {
        // Our entry was gone: it ran out and was taken meanwhile, or the session was deleted.
        this.#lease = lease;
        const exists = await this.#driver.get(lease.rootId);
        this.#onLost(exists ? new LeaseLostError(lease.rootId) : new SessionNotFoundError(lease.rootId));
      } else this.#lease = lease;
    } catch (error) {
      this.#logger.warn("lease not renewed; trying again", { session: this.#lease.rootId, error });
    }
  }
}
