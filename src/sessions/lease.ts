import { setMaxListeners } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { abortable } from "../base/abort.js";
import { monotonicMs } from "../base/clock.js";
import type { TaskSet } from "../base/task-set.js";
import { hasCode, LeaseLostError, SessionBusyError, SessionNotFoundError } from "../ports/errors.js";
import { notifierOf } from "./polling-notifier.js";
import { holderState, currentHolder } from "./holder.js";
import type { Logger } from "../ports/logger.js";
import type { LeaseHolder } from "../ports/holder.js";
import type { LeaseHead, Lease, LeaseOptions, SessionDriver } from "../ports/session-driver.js";
import type { StoredRun } from "../ports/session-queries.js";

/** A holder that does not renew its lease within this time, in ms, counts as dead, on any host. */
export const LEASE_TTL_MS = 30_000;
/** Delay between two renewals, in ms. */
const RENEW_INTERVAL_MS = 10_000;
/** Delay before a failed renewal is retried, in ms. */
const RENEW_RETRY_DELAY_MS = 2_000;
/** Delay after each attempt to release a lease, in ms; undefined after the last attempt. */
const RELEASE_RETRY_DELAYS_MS = [50, 250, undefined] as const;

/** After these attempts, retry in the background until the lease expires: initial and maximum delay, in ms. */
const BACKGROUND_RETRY_DELAY_MS = { initial: 500, max: 1_000 };

/** Runs work that could not be done at once. `closeSignal` aborts when the work must end. */
export interface BackgroundTasks {
  readonly tasks: TaskSet;
  readonly closeSignal: AbortSignal;
}

/** Number of leases that this process holds. */
let heldLeases = 0;

/** Returns the number of leases that this process holds. */
export function countHeldLeases(): number {
  return heldLeases;
}

/** Ids of this process's holders whose lease could not be released; removed after the lease has expired. */
const abandonedHolderIds = new Set<string>();

/** Treats a holder of this process as dead, because its lease could not be released. */
function markAbandoned(holder: LeaseHolder): void {
  abandonedHolderIds.add(holder.id);
  setTimeout(() => abandonedHolderIds.delete(holder.id), 2 * LEASE_TTL_MS).unref();
}

/** Whether a holder is known to be dead: its process has ended, or it is a holder of this process that has ended. */
export function isDead(holder: LeaseHolder): boolean {
  return abandonedHolderIds.has(holder.id) || holderState(holder) === "dead";
}

/** Whether a live holder has the lease of a run that is stored as active. */
export function hasLiveHolder({ holder }: StoredRun): boolean {
  return holder !== null && !isDead(holder);
}

/**
 * Releases a lease. Does nothing if the lease is no longer held or the session was deleted. Rejects with `StoreError`.
 */
export async function releaseLease(driver: SessionDriver, { rootId, fence }: Lease): Promise<void> {
  try {
    await driver.write(rootId, { fence, release: true, sync: false });
  } catch (error) {
    if (!hasCode(error, "lease_lost") && !hasCode(error, "session_not_found")) throw error;
  }
}

/** The lease of a chain, renewed until it is released or lost. */
export class ActiveLease {
  readonly fence: number;
  /** Fence of the chain's previous lease; undefined if the store does not know it. */
  readonly previousFence: number | undefined;
  readonly #driver: SessionDriver;
  readonly #onLost: (reason: Error) => void;
  readonly #logger: Logger;
  #lease: Lease;
  #timer: NodeJS.Timeout | undefined;
  /**
   * The active renewal, if any; at most one. A release waits for this renewal: a renewal that reached the store after
   * the release would take the lease again.
   */
  #renewal: Promise<void> = Promise.resolve();
  #isStopped = false;
  #isReleased = false;
  /** Whether the lease counts as held. */
  #isCounted = true;

  /**
   * Takes the lease. `onLost` gets the reason if another holder takes the lease or the session is deleted. Rejects
   * with `SessionBusyError` if another holder has the lease and is not known to be dead.
   */
  static async take(
    driver: SessionDriver,
    rootId: string,
    logger: Logger,
    onLost: (reason: Error) => void = () => undefined,
  ): Promise<ActiveLease> {
    const [lease] = await ActiveLease.takeWithHead(driver, rootId, undefined, logger, onLost);
    return lease;
  }

  /**
   * Like `take`, with the chain's head, read under the lease. The head is undefined if it was not requested or the
   * session does not exist.
   */
  static async takeWithHead(
    driver: SessionDriver,
    rootId: string,
    head: LeaseOptions["head"],
    logger: Logger,
    onLost: (reason: Error) => void,
  ): Promise<[lease: ActiveLease, head: LeaseHead | undefined]> {
    const holder = currentHolder();
    for (let deadFence: number | undefined; ;) {
      const lease = await driver.lease(rootId, holder, LEASE_TTL_MS, {
        ...(deadFence !== undefined && { fenceToReplace: deadFence }),
        ...(head && { head }),
      });
      // The head may be large, so it is not stored in the lease.
      if (!("heldBy" in lease)) return [new ActiveLease(driver, lease, logger, onLost), lease.head];
      const currentLease = lease.heldBy;
      if (currentLease.fence === deadFence || !isDead(currentLease.holder)) throw new SessionBusyError();
      deadFence = currentLease.fence;
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
    this.previousFence = previous;
    heldLeases += 1;
    this.#scheduleRenewal(RENEW_INTERVAL_MS);
  }

  #scheduleRenewal(delayMs: number): void {
    this.#timer = setTimeout(() => {
      this.#renewal = this.#renew().then((nextDelayMs) => {
        if (nextDelayMs !== undefined && !this.#isStopped) this.#scheduleRenewal(nextDelayMs);
      });
    }, delayMs).unref();
  }

  /**
   * Makes the change that also releases the lease. Renewals stop, also if the change is rejected; the caller must then
   * release the lease separately. Resolves and rejects like the change.
   */
  async releaseWith<T>(change: () => Promise<T>): Promise<T> {
    await this.#stop();
    const result = await change();
    this.#isReleased = true;
    this.#uncount();
    return result;
  }

  /**
   * Like `release`, with retries; never rejects. After the first failure, this process treats the lease as abandoned.
   * For other processes, retries continue in the background until the lease expires.
   */
  async releaseWithRetries({ tasks, closeSignal }: BackgroundTasks): Promise<void> {
    for (const delayMs of RELEASE_RETRY_DELAYS_MS) {
      try {
        await this.release();
        return;
      } catch (error) {
        markAbandoned(this.#lease.holder);
        if (delayMs !== undefined) await sleep(delayMs);
        else if (closeSignal.aborted) this.#logger.warn("lease not released; it expires automatically", { error });
        else void tasks.add(this.#releaseInBackground(closeSignal));
      }
    }
  }

  /** Retries the release until the lease expires. Never rejects; ends at once when `closeSignal` aborts. */
  async #releaseInBackground(closeSignal: AbortSignal): Promise<void> {
    const expiresAtMs = monotonicMs() + LEASE_TTL_MS;
    // Many leases may wait for the same store.
    setMaxListeners(0, closeSignal);
    let lastError: unknown;
    for (
      let delayMs = BACKGROUND_RETRY_DELAY_MS.initial;
      monotonicMs() < expiresAtMs;
      delayMs = BACKGROUND_RETRY_DELAY_MS.max
    ) {
      try {
        await sleep(delayMs, undefined, { signal: closeSignal, ref: false });
        await abortable(this.release(), closeSignal);
        // Waiting processes may have polled before the lease was free.
        notifierOf(this.#driver).publish(this.#lease.rootId);
        return;
      } catch (error) {
        if (closeSignal.aborted) break;
        lastError = error;
      }
    }
    this.#logger.warn("lease not released; it expires automatically", { error: lastError });
  }

  /** Stops the renewals and releases the lease. Idempotent after a success. Rejects with `StoreError`. */
  async release(): Promise<void> {
    await this.#stop();
    if (this.#isReleased) return;
    await releaseLease(this.#driver, this.#lease);
    this.#isReleased = true;
    this.#uncount();
  }

  #uncount(): void {
    if (this.#isCounted) heldLeases -= 1;
    this.#isCounted = false;
  }

  /** Stops the renewals and waits for the active renewal. */
  async #stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#renewal;
  }

  /** Resolves with the delay until the next renewal in ms; undefined if the lease is lost. Never rejects. */
  async #renew(): Promise<number | undefined> {
    try {
      const lease = await this.#driver.lease(this.#lease.rootId, this.#lease.holder, LEASE_TTL_MS);
      if ("heldBy" in lease) {
        this.#uncount();
        this.#onLost(new LeaseLostError(this.#lease.rootId));
        return undefined;
      }
      // Keep a newly taken lease too, so that a later release also releases it.
      this.#lease = lease;
      if (this.#isStopped || lease.fence === this.fence) return RENEW_INTERVAL_MS;
      // A different fence: the lease expired and was taken meanwhile, or the session was deleted.
      const exists = await this.#driver.get(lease.rootId);
      this.#onLost(exists ? new LeaseLostError(lease.rootId) : new SessionNotFoundError(lease.rootId));
      return undefined;
    } catch (error) {
      this.#logger.warn("lease not renewed; retrying", { session: this.#lease.rootId, error });
      return RENEW_RETRY_DELAY_MS;
    }
  }
}
