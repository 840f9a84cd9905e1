import { monotonicMs } from "../../base/clock.js";
import { TooManyRunsError } from "../../ports/errors.js";
import type { ModelPrices } from "../../ports/model-provider.js";
import type { AgentStatistics } from "../../ports/statistics.js";
import type { RunInput } from "../../ports/run.js";
import type { Budget } from "../../ports/usage.js";

/** Limits of a run. */
export interface RunLimits {
  /** Maximum model calls of the main loop. */
  readonly iterations: number;
  /** Maximum stored bytes of the text of one tool output. */
  readonly toolOutputBytes: number;
  /** Budget of the run. */
  readonly budget: Budget;
  /** Budget of all runs of a session together. */
  readonly sessionBudget: SessionBudget;
  /** Price of models without a known price. Undefined: none is assumed. */
  readonly unknownPrice: ModelPrices | undefined;
}

/** Budget of all runs of a session together. */
export type SessionBudget = Pick<Budget, "usd" | "tokens">;

/** Returns the limits of a run: the lower of the requested and the agent's budget, for each resource. */
export function resolveLimits(
  agentLimits: RunLimits,
  requestedBudget: Budget = {},
  iterations = agentLimits.iterations,
): RunLimits {
  const findLowerLimit = (key: keyof Budget) => {
    const limit = Math.min(agentLimits.budget[key] ?? Infinity, requestedBudget[key] ?? Infinity);
    return limit === Infinity ? undefined : limit;
  };
  const budget = { usd: findLowerLimit("usd"), tokens: findLowerLimit("tokens"), seconds: findLowerLimit("seconds") };
  return { ...agentLimits, iterations, budget };
}

export function hasCostLimit({ budget, sessionBudget }: RunLimits): boolean {
  return budget.usd !== undefined || sessionBudget.usd !== undefined;
}

/** Whether the model calls of the run are counted. */
export function isMetered(limits: RunLimits): boolean {
  return hasCostLimit(limits) || limits.budget.tokens !== undefined || limits.sessionBudget.tokens !== undefined;
}

/** Ends a run after its time limit in seconds. The clock is paused while the run waits for a user. */
export class RunClock {
  #remainingMs: number;
  /** Undefined while the clock is paused. */
  #startedAtMs: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #onExpired: () => void;

  constructor(seconds: number, onExpired: () => void) {
    this.#remainingMs = seconds * 1000;
    this.#onExpired = onExpired;
  }

  start(): void {
    if (this.#startedAtMs !== undefined) return;
    this.#startedAtMs = monotonicMs();
    this.#timer = setTimeout(this.#onExpired, Math.max(0, this.#remainingMs));
  }

  pause(): void {
    if (this.#startedAtMs === undefined) return;
    clearTimeout(this.#timer);
    this.#remainingMs -= monotonicMs() - this.#startedAtMs;
    this.#startedAtMs = undefined;
  }
}

/** A run's share of the agent's capacity. */
export interface RunSlot {
  /**
   * Reads attachments when a reader is free. Few runs read at a time, so that they do not block each other with partly
   * reserved memory.
   */
  read<T>(work: () => Promise<T>): Promise<T>;
  /**
   * Reserves memory for attachments. Throws `TooManyRunsError` if the attachments of all runs would exceed the limit.
   */
  reserveBytes(bytes: number): void;
  /** Releases the slot when the run ends. Idempotent. */
  release(): void;
}

/** Maximum runs that read their attachments at the same time. */
const MAX_READERS = 2;

/** Limits the number of runs and the memory of their attachments. */
export class RunLimiter {
  readonly #maxRuns: number;
  readonly #maxBytes: number;
  #activeRuns = 0;
  #queuedRuns = 0;
  #reservedBytes = 0;
  #activeReaders = 0;
  readonly #waitingReaders: (() => void)[] = [];

  constructor(maxRuns: number, maxBytes: number) {
    this.#maxRuns = maxRuns;
    this.#maxBytes = maxBytes;
  }

  get counts(): Pick<AgentStatistics, "activeRuns" | "queuedRuns" | "waitingReaders"> {
    const waitingReaders = this.#waitingReaders.length;
    return { activeRuns: this.#activeRuns, queuedRuns: this.#queuedRuns, waitingReaders };
  }

  /** Whether a further run would be rejected. */
  get isFull(): boolean {
    return this.#activeRuns >= this.#maxRuns;
  }

  /**
   * Counts a queued run. The number of queued runs has the same limit as active runs. Call the returned
   * function when the run leaves the queue. Throws `TooManyRunsError`.
   */
  reserveQueuedRun(): () => void {
    if (this.#queuedRuns >= this.#maxRuns) throw new TooManyRunsError(undefined, "too many queued runs");
    this.#queuedRuns += 1;
    let isWaiting = true;
    return () => {
      if (isWaiting) this.#queuedRuns -= 1;
      isWaiting = false;
    };
  }

  /** Takes a slot. Throws `TooManyRunsError` if none is free. */
  takeSlot(): RunSlot {
    if (this.isFull) throw new TooManyRunsError();
    this.#activeRuns += 1;
    let reservedBytes = 0;
    let isActive = true;
    return {
      read: (work) => this.#read(work),
      reserveBytes: (bytes) => {
        if (this.#reservedBytes + bytes > this.#maxBytes)
          throw new TooManyRunsError(undefined, "too many attachments at once");
        this.#reservedBytes += bytes;
        reservedBytes += bytes;
      },
      release: () => {
        if (!isActive) return;
        isActive = false;
        this.#activeRuns -= 1;
        this.#reservedBytes -= reservedBytes;
      },
    };
  }

  async #read<T>(work: () => Promise<T>): Promise<T> {
    if (this.#activeReaders >= MAX_READERS) await new Promise<void>((resolve) => this.#waitingReaders.push(resolve));
    else this.#activeReaders += 1;
    try {
      return await work();
    } finally {
      // Hand the reader slot to the next run, or free it.
      const resumeNext = this.#waitingReaders.shift();
      if (resumeNext) resumeNext();
      else this.#activeReaders -= 1;
    }
  }
}

/** Counts the bytes of attachments, whose data is base64. */
export function countAttachedBytes(attachments: RunInput["attachments"] = []): number {
  return attachments.reduce((sum, { data }) => sum + Math.floor((data.length * 3) / 4), 0);
}
