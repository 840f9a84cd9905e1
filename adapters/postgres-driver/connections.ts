import { setTimeout as sleep } from "node:timers/promises";
import type { Logger, StoreError } from "gantry";
import { readAddress, type Address } from "./address.js";
import { isConflict, isLost, reason, unavailable, withoutUserText } from "./errors.js";
import { ConnectionPool, type ConnectionLoss, type PoolOptions } from "./connection-pool.js";
import { StatementTimeout, type ParameterValue } from "./connection.js";

export type { ParameterValue } from "./connection.js";

/** The driver options that `Connections` uses. */
export interface ConnectionOptions {
  url: string;
  pool: PoolOptions;
}

/** Runs a query on one connection: one statement, or several in a text without values. */
export type Query = <Row extends object>(text: string, values?: readonly ParameterValue[]) => Promise<Row[]>;

/** Options of a query. */
export interface QueryOptions {
  seconds?: number | undefined;
  patient?: boolean;
}

/** Maximum number of retries of a statement that the server aborted because of a conflict. */
const MAX_CONFLICT_RETRIES = 10;

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
    this.#address = readAddress(options.url);
    this.#pool = new ConnectionPool(this.#address, options.pool, logger);
  }

  get address(): Address {
    return this.#address;
  }

  /** Whether the server has been unreachable for a while. Calls that are not patient then fail at once. */
  get isAway(): boolean {
    return this.#pool.isAway;
  }

  /** Called with an error when the server is found to be away. */
  set whenAway(tell: (error: StoreError) => void) {
    this.#pool.whenAway = tell;
  }

  /** `host:port/database`; safe to log. */
  get where(): string {
    return this.#address.where;
  }

  /**
   * Opens the first connection. `prepare` has exclusive use of it, without a time limit, and runs again if the
   * connection is lost. Rejects with `StoreError` if no connection is available in time.
   */
  async open(prepare: (query: Query) => Promise<void>): Promise<void> {
    this.#pool.open();
    const until = this.#deadline();
    let lost: ConnectionLoss | undefined;
    for (let losses = 1; ; losses++) {
      const link = await this.#pool.take(until, 0, { lost });
      try {
        await prepare((text, values = []) => link.run(text, values, 0));
        this.#pool.put(link);
        return;
      } catch (error) {
        const isGone = link.isLost || isLost(error);
        // The connection may be in the middle of a transaction.
        link.destroy();
        if (!isGone) throw withoutUserText(error);
        lost = { why: reason(error).why, note: "" };
        await this.#pauseBeforeRetry(losses, until, lost);
      }
    }
  }

  /**
   * Runs one statement in one round trip. A statement interrupted by a lost connection is sent again. A change
   * (`"once"`) has a token among its values, by which it detects an earlier execution. `seconds`: time limit; default
   * `statementTimeout`. A patient query waits its full time even for a server that is known to be away. Rejects with
   * `StoreError` for connection errors and timeouts, otherwise with the server's error.
   */
  async query<Row extends object>(
    text: string,
    values: readonly ParameterValue[],
    again: "read" | "once",
    { seconds = this.#options.statementTimeout, patient = false }: QueryOptions = {},
  ): Promise<Row[]> {
    const size = sizeOf(values);
    const note = again === "once" ? UNKNOWN_OUTCOME : "";
    let until = this.#deadline();
    let lost: ConnectionLoss | undefined;
    for (let losses = 0, conflicts = 0; ;) {
      const link = await this.#pool.take(until, size, { lost, patient });
      try {
        const rows = await link.run<Row>(text, values, seconds);
        this.#pool.put(link);
        return rows;
      } catch (error) {
        const isGone = link.isLost || isLost(error);
        if (isGone) link.destroy();
        else this.#pool.put(link);
        if (error instanceof StatementTimeout) throw unavailable(this.#address.where, error.message + note);
        if (isGone) {
          // Restarts the waiting time for a connection: the time of the attempt does not count.
          if (losses++ === 0) until = this.#deadline();
          lost = { why: reason(error).why, note };
          await this.#pauseBeforeRetry(losses, until, lost);
        } else if (isConflict(error) && conflicts++ < MAX_CONFLICT_RETRIES) {
          until = this.#deadline();
          await sleep(Math.random() * 10 * conflicts);
        } else throw withoutUserText(error);
      }
    }
  }

  /** Waits a limited time for active calls and closes all connections. Can be opened again. */
  close(): Promise<void> {
    return this.#pool.close();
  }

  #deadline(): number {
    return Date.now() + this.#options.connectTimeout * 1000;
  }

  /** A short pause before a retry, against busy loops. Throws if no time is left. */
  async #pauseBeforeRetry(losses: number, until: number, { why, note }: ConnectionLoss): Promise<void> {
    if (Date.now() >= until) throw unavailable(this.#address.where, why + note);
    if (losses > 1) await sleep(Math.random() * Math.min(500, 10 * 2 ** losses));
  }
}

/** A caller must not assume that a failed change was not made. */
const UNKNOWN_OUTCOME = "; whether the change was made is not known";

/** Size of a statement's values, in characters or bytes. */
function sizeOf(values: readonly ParameterValue[]): number {
  let size = 0;
  for (const value of values) {
    if (typeof value === "string" || Buffer.isBuffer(value)) size += value.length;
    else if (Array.isArray(value)) size += sizeOf(value as readonly ParameterValue[]);
  }
  return size;
}
