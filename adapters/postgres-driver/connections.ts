import { setTimeout as sleep } from "node:timers/promises";
import type { Logger, StoreError } from "gantry";
import { parseAddress, type Address } from "./address.js";
import { isConflict, isConnectionLost, describeError, toUnavailableError, removeUserText } from "./errors.js";
import { ConnectionPool, type PoolOptions } from "./connection-pool.js";
import { StatementTimeout, type ParameterValue } from "./connection.js";
import type { ConnectionLoss } from "./waiting-calls.js";

export type { ParameterValue } from "./connection.js";

export interface ConnectionOptions {
  url: string;
  pool: PoolOptions;
}

/** Runs a query on one connection: one statement, or several in a text without values. */
export type Query = <Row extends object>(text: string, values?: readonly ParameterValue[]) => Promise<Row[]>;

export interface QueryOptions {
  /** Maximum time of the statement. Default: the option `statementTimeout`. */
  timeoutSeconds?: number | undefined;
  /** Whether the query waits its full time even for a server that is known to be unreachable. Default: false. */
  isPatient?: boolean;
}

/** Maximum number of retries of a statement that the server aborted because of a conflict. */
const MAX_CONFLICT_RETRIES = 10;
// Maximum random delays. The delay after a conflict grows with each conflict; the delay after a loss doubles.
const CONFLICT_RETRY_DELAY_MS = 10;
const LOSS_RETRY_DELAY_MS = 10;
const MAX_LOSS_RETRY_DELAY_MS = 500;

/**
 * Runs statements on a database. While the server is unreachable, calls wait for a limited time and then fail. No
 * statement leaves state in a connection's session, so a pooler may assign each statement to another connection.
 */
export class Connections {
  readonly #options: PoolOptions;
  readonly #address: Address;
  readonly #pool: ConnectionPool;

  /** Opens no connection. Throws `ConfigError` for an invalid URL. */
  constructor(options: ConnectionOptions, logger?: Logger) {
    this.#options = options.pool;
    this.#address = parseAddress(options.url);
    this.#pool = new ConnectionPool(this.#address, options.pool, logger);
  }

  get address(): Address {
    return this.#address;
  }

  /** Whether the server has been unreachable for two seconds. Calls that are not patient then fail at once. */
  get isAway(): boolean {
    return this.#pool.isAway;
  }

  /** Called with the error of each failed attempt to connect while the server is away. */
  set onAway(listener: (error: StoreError) => void) {
    this.#pool.onAway = listener;
  }

  /** `host:port/database`; safe to log. */
  get location(): string {
    return this.#address.location;
  }

  /**
   * Opens the first connection. `prepare` has exclusive use of the connection, without a time limit, and runs again if
   * the connection is lost. Rejects with `StoreError` if no connection is available in time.
   */
  async open(prepare: (query: Query) => Promise<void>): Promise<void> {
    this.#pool.open();
    const deadlineMs = this.#computeDeadlineMs();
    let loss: ConnectionLoss | undefined;
    for (let lossCount = 1; ; lossCount++) {
      const connection = await this.#pool.take(deadlineMs, 0, { loss });
      try {
        await prepare((text, values = []) => connection.run(text, values, 0));
        this.#pool.put(connection);
        return;
      } catch (error) {
        const hasLostConnection = connection.isLost || isConnectionLost(error);
        // The connection may be in the middle of a transaction.
        connection.destroy();
        if (!hasLostConnection) throw removeUserText(error);
        loss = { reason: describeError(error).reason, note: "" };
        await this.#pauseBeforeRetry(lossCount, deadlineMs, loss);
      }
    }
  }

  /**
   * Runs one statement in one round trip. A statement interrupted by a lost connection is sent again. A change
   * (`"once"`) has a token among its values, by which the database detects an earlier execution. Rejects with
   * `StoreError` for connection errors and timeouts, otherwise with the server's error.
   */
  async query<Row extends object>(
    text: string,
    values: readonly ParameterValue[],
    repetition: "read" | "once",
    { timeoutSeconds = this.#options.statementTimeout, isPatient = false }: QueryOptions = {},
  ): Promise<Row[]> {
    const size = sizeOf(values);
    const note = repetition === "once" ? UNKNOWN_OUTCOME_NOTE : "";
    let deadlineMs = this.#computeDeadlineMs();
    let loss: ConnectionLoss | undefined;
    for (let lossCount = 0, conflictCount = 0; ;) {
      const connection = await this.#pool.take(deadlineMs, size, { loss, isPatient });
      try {
        const rows = await connection.run<Row>(text, values, timeoutSeconds);
        this.#pool.put(connection);
        return rows;
      } catch (error) {
        const hasLostConnection = connection.isLost || isConnectionLost(error);
        if (hasLostConnection) connection.destroy();
        else this.#pool.put(connection);
        if (error instanceof StatementTimeout) throw toUnavailableError(this.#address.location, error.message + note);
        if (hasLostConnection) {
          // Restarts the waiting time for a connection: the time of the attempt does not count.
          if (lossCount++ === 0) deadlineMs = this.#computeDeadlineMs();
          loss = { reason: describeError(error).reason, note };
          await this.#pauseBeforeRetry(lossCount, deadlineMs, loss);
        } else if (isConflict(error) && conflictCount++ < MAX_CONFLICT_RETRIES) {
          deadlineMs = this.#computeDeadlineMs();
          await sleep(Math.random() * CONFLICT_RETRY_DELAY_MS * conflictCount);
        } else throw removeUserText(error);
      }
    }
  }

  /** Waits a limited time for active calls and closes all connections. `open` opens connections again. */
  close(): Promise<void> {
    return this.#pool.close();
  }

  #computeDeadlineMs(): number {
    return Date.now() + this.#options.connectTimeout * 1000;
  }

  /** Pauses before the second and each further retry, against busy loops. Throws `StoreError` after `deadlineMs`. */
  async #pauseBeforeRetry(lossCount: number, deadlineMs: number, { reason, note }: ConnectionLoss): Promise<void> {
    if (Date.now() >= deadlineMs) throw toUnavailableError(this.#address.location, reason + note);
    if (lossCount > 1)
      await sleep(Math.random() * Math.min(MAX_LOSS_RETRY_DELAY_MS, LOSS_RETRY_DELAY_MS * 2 ** lossCount));
  }
}

/** Suffix for the error of a change: the caller must not assume that the change was not made. */
const UNKNOWN_OUTCOME_NOTE = "; whether the change was made is not known";

/** Size of a statement's values, in characters or bytes. */
function sizeOf(values: readonly ParameterValue[]): number {
  let size = 0;
  for (const value of values) {
    if (typeof value === "string" || Buffer.isBuffer(value)) size += value.length;
    else if (Array.isArray(value)) size += sizeOf(value as readonly ParameterValue[]);
  }
  return size;
}
