import { setTimeout as sleep } from "node:timers/promises";
import { StoreError, type Logger } from "gantry";
import type { Address } from "./address.js";
import { errorCode, describeError, toUnavailableError } from "./errors.js";
import { Connection } from "./connection.js";
import { Outage } from "./outage.js";
import {
  CAPACITY_CHECK_INTERVAL_MS,
  SCARCE_PERIOD_MS,
  MAX_HOLD_MS,
  readServerCapacity,
  type ServerCapacity,
} from "./server-capacity.js";
import { WaitingCalls, type ConnectionLoss } from "./waiting-calls.js";

/** Times are in seconds. */
export interface PoolOptions {
  size: number;
  /** Maximum time that a call waits for a connection, including all reconnection attempts. */
  connectTimeout: number;
  /** Time for which an unused connection is kept. */
  idleTimeout: number;
  /** Maximum time of a statement. */
  statementTimeout: number;
}

export interface ConnectionRequest {
  loss?: ConnectionLoss | undefined;
  isPatient?: boolean;
}

/** Minimum time limit of one attempt to connect. It is longer if calls wait for longer than twice this time. */
const MIN_ATTEMPT_MS = 5000;
// Delays between two attempts while the server is unreachable. The delay doubles with each failure.
const INITIAL_RETRY_DELAY_MS = 50;
const MAX_RETRY_DELAY_MS = 1000;
/** Delay before a call is rejected because the server is known to be unreachable. */
const REJECTION_DELAY_MS = 10;
const SWEEP_INTERVAL_MS = 1000;
const CLOSE_TIMEOUT_MS = 5000;
/** Maximum age of a connection. The server's memory for a connection grows with the connection's statements. */
const MAX_AGE_MS = 30 * 60_000;
const TOO_MANY_CONNECTIONS_CODE = "53300";

/**
 * A small pool of connections shared by all calls. Lost connections are replaced on demand. If the server has too few
 * connections for all processes, each process has one connection at a time, for a short time.
 */
export class ConnectionPool {
  readonly #address: Address;
  readonly #options: PoolOptions;
  readonly #outage: Outage;
  /** All intact connections, including idle ones. */
  readonly #connections = new Set<Connection>();
  /** Unused connections, taken last in, first out, so that surplus connections reach the idle timeout. */
  readonly #idle: Connection[] = [];
  readonly #connectTasks = new Set<Promise<void>>();
  readonly #closeTasks = new Set<Promise<void>>();
  readonly #waitingCalls = new WaitingCalls();
  /** Number of failed attempts since the last success. */
  #failureCount = 0;
  #retryAtMs = 0;
  #retryTimer: NodeJS.Timeout | undefined;
  #sweepTimer: NodeJS.Timeout | undefined;
  #holdTimer: NodeJS.Timeout | undefined;
  #capacity: ServerCapacity = "enough";
  #scarceUntilMs = 0;
  #capacityReadAtMs = 0;
  /** Undefined while the pool is closed; `close` aborts connection attempts. */
  #lifetime: AbortController | undefined;
  #onAllClosed: (() => void) | undefined;
  /** Called after each failed attempt while `isAway` is true. */
  onAway: ((error: StoreError) => void) | undefined;

  constructor(address: Address, options: PoolOptions, logger?: Logger) {
    this.#address = address;
    this.#options = options;
    this.#outage = new Outage(address.location, logger);
  }

  /** Allows connections until `close`. Opens no connection. */
  open(): void {
    this.#lifetime ??= new AbortController();
    this.#capacityReadAtMs = Date.now();
  }

  /**
   * Takes a connection. The caller returns it with `put`. Waits until `deadlineMs` (ms since the epoch) at the latest.
   * `size`: characters in the caller's values. A caller with a `loss` is served first. Only patient callers wait for a
   * server that has been away for two seconds. Rejects with `StoreError`.
   */
  async take(
    deadlineMs: number,
    size: number,
    { loss, isPatient = false }: ConnectionRequest = {},
  ): Promise<Connection> {
    if (!this.#lifetime) throw new StoreError(`session store ${this.#address.location}: it is closed`);
    const idleConnection = this.#idle.pop();
    if (idleConnection) {
      idleConnection.setProcessHold(true);
      return idleConnection;
    }
    if (this.isAway && !isPatient) {
      this.#openConnections();
      // A caller that retries in a tight loop must yield to other work.
      await sleep(REJECTION_DELAY_MS);
      throw this.#createUnavailableError("", loss);
    }
    if (this.#waitingCalls.isFullFor(size)) throw this.#createUnavailableError("too many calls wait; ");
    const connection = this.#waitingCalls.add({ size, isPatient, loss }, deadlineMs, () =>
      this.#createUnavailableError("", loss),
    );
    this.#openConnections();
    return connection;
  }

  /** Gives a connection to a waiting call, or to the idle connections. A lost connection is already removed. */
  put(connection: Connection, idleSinceMs = Date.now()): void {
    if (connection.isLost) return;
    if (!this.#lifetime || Date.now() - connection.createdAtMs > MAX_AGE_MS) {
      track(this.#closeTasks, connection.end());
      return;
    }
    if (this.#capacity !== "pooled" && Date.now() - this.#capacityReadAtMs > CAPACITY_CHECK_INTERVAL_MS) {
      track(this.#closeTasks, this.#updateCapacity(connection, idleSinceMs));
      return;
    }
    if (this.#capacity === "scarce" && Date.now() - connection.createdAtMs > MAX_HOLD_MS) {
      // Other processes without a connection come first; then the waiting calls of this process get a new connection.
      this.#delayRetry(MAX_RETRY_DELAY_MS);
      track(this.#closeTasks, connection.end());
      return;
    }
    const isTaken = this.#waitingCalls.accept(connection);
    connection.setProcessHold(isTaken);
    if (isTaken) return;
    connection.idleSinceMs = idleSinceMs;
    this.#idle.push(connection);
    if (this.#capacity !== "scarce") return;
    const endHold = (): void => {
      this.#holdTimer = undefined;
      this.#closeIdleConnections();
    };
    this.#holdTimer ??= setTimeout(endHold, MAX_HOLD_MS).unref();
  }

  /** Checks whether other processes can get a connection. */
  async #updateCapacity(connection: Connection, idleSinceMs: number): Promise<void> {
    this.#capacityReadAtMs = Date.now();
    try {
      this.#setCapacity(await readServerCapacity(connection));
    } catch {
      // A server that hides its capacity counts as sufficient until the server rejects a connection. A lost connection
      // is removed.
    }
    this.put(connection, idleSinceMs);
  }

  #setCapacity(capacity: ServerCapacity): void {
    if (capacity === "scarce") this.#scarceUntilMs = Date.now() + SCARCE_PERIOD_MS;
    // Other processes may use up free capacity at once, so it stays scarce for a while.
    this.#capacity = capacity === "enough" && Date.now() < this.#scarceUntilMs ? "scarce" : capacity;
  }

  #delayRetry(delayMs: number): void {
    this.#failureCount = Math.max(1, this.#failureCount);
    // Random, so that replicas do not retry simultaneously.
    this.#retryAtMs = Date.now() + delayMs * (0.5 + Math.random() / 2);
  }

  /** Waits a limited time for active calls and closes all connections. Never rejects. The pool can be opened again. */
  async close(): Promise<void> {
    if (!this.#lifetime) return;
    this.#lifetime.abort();
    this.#lifetime = undefined;
    for (const timer of [this.#retryTimer, this.#sweepTimer, this.#holdTimer]) clearTimeout(timer);
    this.#retryTimer = this.#sweepTimer = this.#holdTimer = undefined;
    this.#waitingCalls.reject(() => new StoreError(`session store ${this.#address.location}: it was closed`));
    for (const connection of this.#idle.splice(0)) track(this.#closeTasks, connection.end());
    if (this.#connections.size > 0) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#onAllClosed = resolve;
        timer = setTimeout(resolve, CLOSE_TIMEOUT_MS);
      });
      clearTimeout(timer);
      this.#onAllClosed = undefined;
      for (const connection of this.#connections) connection.destroy();
    }
    await Promise.all([...this.#closeTasks, ...this.#connectTasks]);
    this.#failureCount = 0;
    this.#outage.reset();
  }

  /** Whether the server has been unreachable for two seconds and attempts continue. */
  get isAway(): boolean {
    return this.#connections.size === 0 && this.#outage.isLong;
  }

  #createUnavailableError(prefix = "", loss?: ConnectionLoss): StoreError {
    const poolReason = `all ${this.#connections.size} connections are in use (session.pool.size)`;
    const reason =
      this.#outage.reason ?? loss?.reason ?? (this.#connections.size > 0 ? poolReason : "the server does not answer");
    return toUnavailableError(this.#address.location, `${prefix}${reason}${loss?.note ?? ""}`);
  }

  /** Closes connections whose idle time has passed. A remaining connection checks the server's capacity. */
  #closeIdleConnections(): void {
    const idleMs = this.#capacity === "scarce" ? MAX_HOLD_MS : this.#options.idleTimeout * 1000;
    const idleBeforeMs = Date.now() - idleMs;
    while (this.#idle[0] && this.#idle[0].idleSinceMs <= idleBeforeMs) track(this.#closeTasks, this.#idle[0].end());
    const idleConnection = this.#idle.pop();
    if (idleConnection) this.put(idleConnection, idleConnection.idleSinceMs);
    if (this.#connections.size > 0) return;
    clearInterval(this.#sweepTimer);
    this.#sweepTimer = undefined;
  }

  /**
   * Opens as many connections as are needed and allowed. While the server is unreachable, the pool makes one attempt at
   * a time, so that a returning server is not overloaded.
   */
  #openConnections(): void {
    const connectTasks = this.#connectTasks;
    const maxConnections = this.#capacity === "scarce" ? 1 : this.#options.size;
    // One attempt continues without waiting calls, to detect that the server is back.
    const needsConnection = (): boolean => {
      const calls = Math.max(this.#waitingCalls.count, this.isAway ? 1 : 0);
      return connectTasks.size < calls && this.#connections.size + connectTasks.size < maxConnections;
    };
    if (!this.#lifetime || !needsConnection()) return;
    if (this.#failureCount === 0) while (needsConnection()) track(connectTasks, this.#connect(this.#lifetime.signal));
    else if (connectTasks.size === 0 && !this.#retryTimer) {
      const retry = (): void => {
        this.#retryTimer = undefined;
        if (this.#lifetime && needsConnection()) track(connectTasks, this.#connect(this.#lifetime.signal));
      };
      // Waiting calls have their own timers.
      this.#retryTimer = setTimeout(retry, Math.max(0, this.#retryAtMs - Date.now())).unref();
    }
  }

  /** Makes one attempt and reports its result to the waiting calls. Never rejects. */
  async #connect(signal: AbortSignal): Promise<void> {
    const startedAtMs = Date.now();
    try {
      const connection = await Connection.open(
        this.#address,
        Math.max(MIN_ATTEMPT_MS, (this.#options.connectTimeout * 1000) / 2),
        signal,
        this.#waitingCalls.count > 0,
      );
      this.#failureCount = 0;
      this.#outage.recordSuccess();
      this.#connections.add(connection);
      connection.onLost = () => this.#removeConnection(connection);
      this.#sweepTimer ??= setInterval(() => this.#closeIdleConnections(), SWEEP_INTERVAL_MS).unref();
      this.put(connection);
    } catch (error) {
      if (!signal.aborted) this.#handleFailedAttempt(error, startedAtMs);
    }
    // Delayed, so that this attempt no longer counts.
    setImmediate(() => this.#openConnections());
  }

  #handleFailedAttempt(error: unknown, startedAtMs: number): void {
    const { reason, isPermanent } = describeError(error);
    const isScarce = errorCode(error) === TOO_MANY_CONNECTIONS_CODE;
    if (isScarce) this.#setCapacity("scarce");
    this.#delayRetry(
      Math.min(isScarce ? MAX_HOLD_MS : MAX_RETRY_DELAY_MS, INITIAL_RETRY_DELAY_MS * 2 ** this.#failureCount++),
    );
    // Up to two failures are not reported as an outage: waiting calls may not notice them.
    this.#outage.recordFailure(startedAtMs, { reason, isTemporary: !isPermanent && !isScarce }, this.#failureCount > 2);
    if (isPermanent && this.#connections.size === 0)
      this.#waitingCalls.reject(() => new StoreError(`session store ${this.#address.location}: ${reason}`));
    if (!this.isAway) return;
    this.#waitingCalls.reject(
      ({ loss }) => this.#createUnavailableError("", loss),
      ({ isPatient }) => !isPatient,
    );
    this.onAway?.(this.#createUnavailableError());
  }

  #removeConnection(connection: Connection): void {
    this.#connections.delete(connection);
    const index = this.#idle.indexOf(connection);
    if (index >= 0) this.#idle.splice(index, 1);
    if (this.#connections.size === 0) this.#onAllClosed?.();
    this.#openConnections();
  }
}

/** Keeps a background task in `tasks` until the task has settled. */
function track(tasks: Set<Promise<void>>, task: Promise<void>): void {
  tasks.add(task);
  void task.finally(() => tasks.delete(task));
}
