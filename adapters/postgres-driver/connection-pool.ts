import { setTimeout as sleep } from "node:timers/promises";
import { StoreError, type Logger } from "gantry";
import type { Address } from "./address.js";
import { codeOf, reason, unavailable } from "./errors.js";
import { Connection } from "./connection.js";
import { Outage } from "./outage.js";
import {
  CAPACITY_CHECK_INTERVAL_MS,
  SCARCE_MS,
  MAX_HOLD_MS,
  readServerCapacity,
  type ServerCapacity,
} from "./server-capacity.js";

/** Times are in seconds. */
export interface PoolOptions {
  /** Maximum number of concurrent connections. */
  size: number;
  /** Maximum time that a call waits for a connection, including all reconnection attempts. */
  connectTimeout: number;
  /** Time for which an unused connection is kept. */
  idleTimeout: number;
  /** Maximum time of a statement. */
  statementTimeout: number;
}

interface Waiter {
  /** Whether the caller waits its full time even for a server that is known to be away. */
  readonly patient: boolean;
  readonly lost: ConnectionLoss | undefined;
  /** Size of the call's values, in characters. */
  readonly size: number;
  take(link: Connection): void;
  refuse(error: Error): void;
}

/** Loss of a connection: the reason, and a note for the error if no other connection is available. */
export interface ConnectionLoss {
  readonly why: string;
  readonly note: string;
}

/** Options of a request for a connection. */
export interface ConnectionRequest {
  lost?: ConnectionLoss | undefined;
  patient?: boolean;
}

/** Maximum number of waiting calls, and of characters in their values. Further calls are rejected at once. */
const MAX_QUEUE = { calls: 10_000, size: 64 * 1024 * 1024 };
/** Timeout of a connection attempt, and maximum delay between two attempts while the server is unreachable, in ms. */
const CONNECT_TIMEOUT_MS = 5000;
const MAX_RETRY_DELAY_MS = 1000;
/** Delay before a rejection, in ms. */
const REJECTION_DELAY_MS = 10;
/** Interval between checks for unused connections, in ms. */
const SWEEP_INTERVAL_MS = 1000;
/** Maximum time for which `close` waits for active calls, in ms. */
const CLOSE_TIMEOUT_MS = 5000;
/** Maximum age of a connection, in ms. The server's memory for a connection grows with its statements. */
const MAX_AGE_MS = 30 * 60_000;

/**
 * A small pool of connections shared by all calls. Lost connections are replaced on demand. If the server has too few
 * connections for all its processes, each process has one at a time, for a short time.
 */
export class ConnectionPool {
  readonly #address: Address;
  readonly #options: PoolOptions;
  readonly #outage: Outage;
  /** Intact connections, including idle ones. */
  readonly #connections = new Set<Connection>();
  /** Used last in, first out, so that surplus connections become idle and are closed. */
  readonly #idle: Connection[] = [];
  readonly #attempts = new Set<Promise<void>>();
  readonly #closing = new Set<Promise<void>>();
  readonly #waiting: Waiter[] = [];
  #waitingSize = 0;
  /** Number of failed attempts since the last success, and the earliest time of the next attempt. */
  #failures = 0;
  #retryAt = 0;
  #retry: NodeJS.Timeout | undefined;
  #sweep: NodeJS.Timeout | undefined;
  #turn: NodeJS.Timeout | undefined;
  #capacity: ServerCapacity = "enough";
  #scarceUntil = 0;
  #capacityReadAt = 0;
  #life: AbortController | undefined;
  #whenGone: (() => void) | undefined;
  /** Called after each failed attempt while the server is away. */
  whenAway: ((error: StoreError) => void) | undefined;

  constructor(address: Address, options: PoolOptions, logger?: Logger) {
    this.#address = address;
    this.#options = options;
    this.#outage = new Outage(address.where, logger);
  }

  /** Allows connections until `close`. Opens none itself. */
  open(): void {
    this.#life ??= new AbortController();
    this.#capacityReadAt = Date.now();
  }

  /**
   * Takes a connection, to be returned with `put`; waits until `until` at the latest. `size`: size of the caller's
   * values, in characters. A caller that `lost` its connection is served first. Only patient callers wait for a server
   * that has been away for two seconds. Rejects with `StoreError`.
   */
  async take(until: number, size: number, { lost, patient = false }: ConnectionRequest = {}): Promise<Connection> {
    if (!this.#life) throw new StoreError(`session store ${this.#address.where}: it is closed`);
    const idle = this.#idle.pop();
    if (idle) {
      idle.keepAlive(true);
      return idle;
    }
    if (this.isAway && !patient) {
      this.#grow();
      // A caller that retries in a tight loop must yield to other work.
      await sleep(REJECTION_DELAY_MS);
      throw this.#unavailableError("", lost);
    }
    const full = this.#waiting.length >= MAX_QUEUE.calls || this.#waitingSize + size > MAX_QUEUE.size;
    if (full && this.#waiting.length > 0) throw this.#unavailableError("too many calls wait; ");
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => {
          this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
          this.#waitingSize -= size;
          reject(this.#unavailableError("", lost));
        },
        Math.max(0, until - Date.now()),
      );
      const waiter: Waiter = {
        size,
        patient,
        lost,
        take: (link) => {
          clearTimeout(timer);
          resolve(link);
        },
        refuse: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      };
      if (lost) this.#waiting.unshift(waiter);
      else this.#waiting.push(waiter);
      this.#waitingSize += size;
      this.#grow();
    });
  }

  /** Returns a connection: to a waiting call, or to the idle ones. A lost connection is already removed. */
  put(link: Connection, idleSince = Date.now()): void {
    if (link.isLost) return;
    if (!this.#life || Date.now() - link.since > MAX_AGE_MS) {
      track(this.#closing, link.end());
      return;
    }
    if (this.#capacity !== "pooled" && Date.now() - this.#capacityReadAt > CAPACITY_CHECK_INTERVAL_MS) {
      track(this.#closing, this.#updateCapacity(link, idleSince));
      return;
    }
    if (this.#capacity === "scarce" && Date.now() - link.since > MAX_HOLD_MS) {
      // Local waiting calls get a connection in turn with other processes that have none.
      this.#delayRetry(MAX_RETRY_DELAY_MS);
      track(this.#closing, link.end());
      return;
    }
    const waiter = this.#next();
    link.keepAlive(waiter !== undefined);
    if (waiter) {
      waiter.take(link);
      return;
    }
    link.idleSince = idleSince;
    this.#idle.push(link);
    if (this.#capacity !== "scarce") return;
    const over = (): void => {
      this.#turn = undefined;
      this.#closeIdle();
    };
    this.#turn ??= setTimeout(over, MAX_HOLD_MS).unref();
  }

  /** Checks whether other processes get connections, because they cannot report it themselves. */
  async #updateCapacity(link: Connection, idleSince: number): Promise<void> {
    this.#capacityReadAt = Date.now();
    try {
      this.#setCapacity(await readServerCapacity(link));
    } catch {
      // A server that hides its capacity counts as sufficient until it rejects a connection. A lost connection is
      // removed.
    }
    this.put(link, idleSince);
  }

  #setCapacity(room: ServerCapacity): void {
    if (room === "scarce") this.#scarceUntil = Date.now() + SCARCE_MS;
    // Free capacity may be used up by other processes at once.
    this.#capacity = room === "enough" && Date.now() < this.#scarceUntil ? "scarce" : room;
  }

  #delayRetry(ms: number): void {
    this.#failures = Math.max(1, this.#failures);
    // Random, so that replicas do not retry simultaneously.
    this.#retryAt = Date.now() + ms * (0.5 + Math.random() / 2);
  }

  /** Waits a limited time for active calls and closes all connections. Never rejects. The pool can be opened again. */
  async close(): Promise<void> {
    if (!this.#life) return;
    this.#life.abort();
    this.#life = undefined;
    for (const timer of [this.#retry, this.#sweep, this.#turn]) clearTimeout(timer);
    this.#retry = this.#sweep = this.#turn = undefined;
    this.#refuse(() => new StoreError(`session store ${this.#address.where}: it was closed`));
    for (const link of this.#idle.splice(0)) track(this.#closing, link.end());
    if (this.#connections.size > 0) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#whenGone = resolve;
        timer = setTimeout(resolve, CLOSE_TIMEOUT_MS);
      });
      clearTimeout(timer);
      this.#whenGone = undefined;
      for (const link of this.#connections) link.destroy();
    }
    await Promise.all([...this.#closing, ...this.#attempts]);
    this.#failures = 0;
    this.#outage.forget();
  }

  #next(): Waiter | undefined {
    const waiter = this.#waiting.shift();
    if (waiter) this.#waitingSize -= waiter.size;
    return waiter;
  }

  /** Whether the server has been unreachable for a while and attempts continue. */
  get isAway(): boolean {
    return this.#connections.size === 0 && this.#outage.isLong;
  }

  /** Rejects waiting calls. Default: all of them, including the patient ones. */
  #refuse(why: (waiter: Waiter) => Error, which = (_: Waiter): boolean => true): void {
    const refused = this.#waiting.filter(which);
    if (refused.length === 0) return;
    const remaining = this.#waiting.filter((waiter) => !which(waiter));
    this.#waiting.splice(0, Infinity, ...remaining);
    for (const waiter of refused) {
      this.#waitingSize -= waiter.size;
      waiter.refuse(why(waiter));
    }
  }

  /** The error for a missing connection, with its reason. */
  #unavailableError(before = "", lost?: ConnectionLoss): StoreError {
    const all = `all ${this.#connections.size} connections are in use (session.pool.size)`;
    const why = this.#outage.why ?? lost?.why ?? (this.#connections.size > 0 ? all : "the server does not answer");
    return unavailable(this.#address.where, `${before}${why}${lost?.note ?? ""}`);
  }

  /** Closes connections unused for long. One of the remaining ones checks the server's capacity. */
  #closeIdle(): void {
    const ms = this.#capacity === "scarce" ? MAX_HOLD_MS : this.#options.idleTimeout * 1000;
    const before = Date.now() - ms;
    while (this.#idle[0] && this.#idle[0].idleSince <= before) track(this.#closing, this.#idle[0].end());
    const idle = this.#idle.pop();
    if (idle) this.put(idle, idle.idleSince);
    if (this.#connections.size > 0) return;
    clearInterval(this.#sweep);
    this.#sweep = undefined;
  }

  /**
   * Opens as many connections as are needed and allowed. While the server is unreachable, one at a time, so that a
   * returning server is not overloaded.
   */
  #grow(): void {
    const attempts = this.#attempts;
    const maxConnections = this.#capacity === "scarce" ? 1 : this.#options.size;
    // One attempt continues without waiting calls, to detect that the server is back.
    const needsConnection = (): boolean => {
      const calls = Math.max(this.#waiting.length, this.isAway ? 1 : 0);
      return attempts.size < calls && this.#connections.size + attempts.size < maxConnections;
    };
    if (!this.#life || !needsConnection()) return;
    if (this.#failures === 0) while (needsConnection()) track(attempts, this.#connect(this.#life.signal));
    else if (attempts.size === 0 && !this.#retry) {
      const again = (): void => {
        this.#retry = undefined;
        if (this.#life && needsConnection()) track(attempts, this.#connect(this.#life.signal));
      };
      // Waiting calls have their own timers.
      this.#retry = setTimeout(again, Math.max(0, this.#retryAt - Date.now())).unref();
    }
  }

  /** Makes one attempt and reports its result to the waiting calls. Never rejects. */
  async #connect(signal: AbortSignal): Promise<void> {
    const begun = Date.now();
    try {
      const link = await Connection.dial(this.#address, CONNECT_TIMEOUT_MS, signal, this.#waiting.length > 0);
      this.#failures = 0;
      this.#outage.reached();
      this.#connections.add(link);
      link.onLost = () => this.#forget(link);
      this.#sweep ??= setInterval(() => this.#closeIdle(), SWEEP_INTERVAL_MS).unref();
      this.put(link);
    } catch (error) {
      if (!signal.aborted) this.#attemptFailed(error, begun);
    }
    // Runs after this attempt is no longer counted.
    setImmediate(() => this.#grow());
  }

  #attemptFailed(error: unknown, begun: number): void {
    const { why, lasting } = reason(error);
    const isScarce = codeOf(error) === "53300";
    if (isScarce) this.#setCapacity("scarce");
    this.#delayRetry(Math.min(isScarce ? MAX_HOLD_MS : MAX_RETRY_DELAY_MS, 50 * 2 ** this.#failures++));
    // A single failure is not reported as an outage: waiting calls may not notice it.
    this.#outage.attemptFailed(begun, { why, passing: !lasting && !isScarce }, this.#failures > 2);
    if (lasting && this.#connections.size === 0)
      this.#refuse(() => new StoreError(`session store ${this.#address.where}: ${why}`));
    if (!this.isAway) return;
    this.#refuse(
      ({ lost }) => this.#unavailableError("", lost),
      ({ patient }) => !patient,
    );
    this.whenAway?.(this.#unavailableError());
  }

  #forget(link: Connection): void {
    this.#connections.delete(link);
    const at = this.#idle.indexOf(link);
    if (at >= 0) this.#idle.splice(at, 1);
    if (this.#connections.size === 0) this.#whenGone?.();
    this.#grow();
  }
}

/** Tracks a background task until it is done. */
function track(tasks: Set<Promise<void>>, task: Promise<void>): void {
  tasks.add(task);
  void task.finally(() => tasks.delete(task));
}
