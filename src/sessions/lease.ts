import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { abortable } from "../base/abort.js";
import { ticks } from "../base/clock.js";
import type { TaskSet } from "../base/task-set.js";
import { hasCode, LeaseLostError, SessionBusyError, SessionNotFoundError } from "../ports/errors.js";
import { notifierOf } from "./polling-notifier.js";
import { holderState, thisHolder } from "./holder.js";
import type { Logger } from "../ports/logger.js";
import type { Holder } from "../ports/holder.js";
import type { LeaseHead, Lease, LeaseOptions, SessionDriver, StoredRun } from "../ports/session-driver.js";

/** A holder that does not renew for so long is taken for gone, wherever it runs. */
export const LEASE_TTL_MS = 30_000;
const RENEW_MS = 10_000;
/** A renewal that failed is tried again so soon, in ms. */
const RENEW_AGAIN_MS = 2_000;
/** Waits, in ms, between the attempts to give a lease back; the last attempt has none behind it. */
const GIVE_BACK_MS = [50, 250, undefined] as const;

/** Behind these it is tried again in the background until the lease has run out, first and longest wait in ms. */
const LATER_MS = { first: 500, longest: 1000 };

/** Who goes on with what could not be done at once, and says when that must end. */
export interface Background {
  readonly tasks: TaskSet;
  readonly closing: AbortSignal;
}

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

/** Does nothing where the lease is no longer held, or its session was deleted. Rejects with `StoreError`. */
export async function releaseLease(driver: SessionDriver, { rootId, fence }: Lease): Promise<void> {
  try {
    await driver.write(rootId, { fence, release: true, sync: false });
  } catch (error) {
    if (!hasCode(error, "lease_lost") && !hasCode(error, "session_not_found")) throw error;
  }
}

/** The right to write to a chain, renewed until it is given back or lost. */
export class HeldLease {
  readonly fence: number;
  /** Of the chain's lease before this one, where the store knows it. */
  readonly previous: number | undefined;
  readonly #driver: SessionDriver;
  readonly #onLost: (reason: Error) => void;
  readonly #logger: Logger;
  #lease: Lease;
  #timer: NodeJS.Timeout | undefined;
  /** At most one is under way: what comes to the store behind the release would take the lease anew. */
  #renewing: Promise<void> = Promise.resolve();
  #stopped = false;
  #isBack = false;

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
    const [lease] = await HeldLease.takeWithHead(driver, rootId, undefined, logger, onLost);
    return lease;
  }

  /** As `take`, with the chain's head as it is under the lease; none where nothing of it is wanted, or the session is not there. */
  static async takeWithHead(
    driver: SessionDriver,
    rootId: string,
    head: LeaseOptions["head"],
    logger: Logger,
    onLost: (reason: Error) => void,
  ): Promise<[lease: HeldLease, head: LeaseHead | undefined]> {
    const holder = thisHolder();
    for (let dead: number | undefined; ;) {
      const lease = await driver.lease(rootId, holder, LEASE_TTL_MS, {
        ...(dead !== undefined && { replacing: dead }),
        ...(head && { head }),
      });
      // The head, which may be large, is not kept with the lease.
      if (!("heldBy" in lease)) return [new HeldLease(driver, lease, logger, onLost), lease.head];
      const rival = lease.heldBy;
      if (rival.fence === dead || !isGone(rival.holder)) throw new SessionBusyError();
      dead = rival.fence;
    }
  }

  private constructor(
    driver: SessionDriver,
    { rootId, holder, fence, expiresAt, previous }: Lease,
    logger: Logger,
    onLost: (reason: Error) => void,
  ) {
    this.#driver = driver;
    this.#lease = { rootId, holder, fence, expiresAt };
    this.#logger = logger;
    this.#onLost = onLost;
    this.fence = fence;
    this.previous = previous;
    this.#renewIn(RENEW_MS);
  }

  #renewIn(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#renewing = this.#renew().then((next) => {
        if (next !== undefined && !this.#stopped) this.#renewIn(next);
      });
    }, ms).unref();
  }

  /**
   * Do the change that gives the lease back with it: nothing is renewed any more, also where the change is refused or
   * fails. The lease is to be given back by itself then. Resolves and rejects as the change.
   */
  async backWith<T>(change: () => Promise<T>): Promise<T> {
    await this.#stop();
    const done = await change();
    this.#isBack = true;
    return done;
  }

  /**
   * As `release`, tried again, and never rejects: this process knows a lease that it could not give back. For others that
   * goes on in the background until the lease has run out.
   */
  async giveBack({ tasks, closing }: Background): Promise<void> {
    for (const wait of GIVE_BACK_MS) {
      try {
        await this.release();
        return;
      } catch (error) {
        bury(this.#lease.holder);
        if (wait !== undefined) await sleep(wait);
        else if (closing.aborted) this.#logger.warn("a lease was not given back; it runs out by itself", { error });
        else void tasks.add(this.#giveBackLater(closing));
      }
    }
  }

  /** Never rejects; ends at once when `closing` says so. */
  async #giveBackLater(closing: AbortSignal): Promise<void> {
    const until = ticks() + LEASE_TTL_MS;
    // Any number of leases may wait for the same store.
    setMaxListeners(0, closing);
    let failure: unknown;
    for (let wait = LATER_MS.first; ticks() < until; wait = LATER_MS.longest) {
      try {
        await sleep(wait, undefined, { signal: closing, ref: false });
        await abortable(this.release(), closing);
        // Who waits for it elsewhere may have looked before it was free.
        notifierOf(this.#driver).publish(this.#lease.rootId);
        return;
      } catch (error) {
        if (closing.aborted) break;
        failure = error;
      }
    }
    this.#logger.warn("a lease was not given back; it runs out by itself", { error: failure });
  }

  async release(): Promise<void> {
    await this.#stop();
    if (this.#isBack) return;
    await releaseLease(this.#driver, this.#lease);
    this.#isBack = true;
  }

  async #stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#renewing;
  }

  /** Resolves with when to renew it next; undefined: never, as it is lost. Never rejects. */
  async #renew(): Promise<number | undefined> {
    try {
      const lease = await this.#driver.lease(this.#lease.rootId, this.#lease.holder, LEASE_TTL_MS);
      if ("heldBy" in lease) {
        this.#onLost(new LeaseLostError(this.#lease.rootId));
        return undefined;
      }
      // What is to be given back.
      this.#lease = lease;
      if (this.#stopped || lease.fence === this.fence) return RENEW_MS;
      // Our entry was gone: it ran out and was taken meanwhile, or the session was deleted.
      const exists = await this.#driver.get(lease.rootId);
      this.#onLost(exists ? new LeaseLostError(lease.rootId) : new SessionNotFoundError(lease.rootId));
      return undefined;
    } catch (error) {
      this.#logger.warn("lease not renewed; trying again", { session: this.#lease.rootId, error });
      return RENEW_AGAIN_MS;
    }
  }
}
