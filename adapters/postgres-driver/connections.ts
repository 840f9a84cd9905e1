import { setTimeout as sleep } from "node:timers/promises";
import type { Logger, StoreError } from "gantry";
import { readAddress, type Address } from "./address.js";
import { isConflict, isLost, reason, unavailable, withoutWords } from "./errors.js";
import { ConnectionPool, type ConnectionLoss, type PoolOptions } from "./connection-pool.js";
import { TooLong, type Value } from "./connection.js";

export type { Value } from "./connection.js";

/** What `Connections` reads of the driver's options. */
export interface ConnectionOptions {
  url: string;
  pool: PoolOptions;
}

/** Ask something on one connection: one statement, or several in a text without values. */
export type Query = <Row extends object>(text: string, values?: readonly Value[]) => Promise<Row[]>;

/** How a statement is asked for. */
export interface Asking {
  seconds?: number | undefined;
  patient?: boolean;
}

/** How often a statement that the server broke off for another's sake is sent again. */
const CONFLICTS = 10;

/**
 * What is asked of a database. While it cannot be reached calls wait a while and are then told so. Nothing is left behind
 * in a connection's session, so that a pooler may give each statement to another one.
 */
export class Connections {
  readonly #options: PoolOptions;
  readonly #address: Address;
  readonly #pool: ConnectionPool;

  /** Opens nothing. `ConfigError` for a URL that says no place. */
  constructor(options: ConnectionOptions, logger?: Logger) {
    this.#options = options.pool;
    this.#address = readAddress(options.url);
    this.#pool = new ConnectionPool(this.#address, options.pool, logger);
  }

  get address(): Address {
    return this.#address;
  }

  /** Whether nothing has been reached for a while: who is not patient is told so at once. */
  get isAway(): boolean {
    return this.#pool.isAway;
  }

  /** Called when that is found, with what to tell. */
  set whenAway(tell: (error: StoreError) => void) {
    this.#pool.whenAway = tell;
  }

  /** `host:port/database`: what may be told. */
  get where(): string {
    return this.#address.where;
  }

  /**
   * The first connection; `prepare` has it alone, for as long as it takes, and begins again when it is lost. `StoreError`
   * when there is none in time.
   */
  async open(prepare: (query: Query) => Promise<void>): Promise<void> {
    this.#pool.open();
    const until = this.#soon();
    let lost: ConnectionLoss | undefined;
    for (let losses = 1; ; losses++) {
      const link = await this.#pool.take(until, 0, { lost });
      try {
        await prepare((text, values = []) => link.run(text, values, 0));
        this.#pool.put(link);
        return;
      } catch (error) {
        const isGone = link.lost || isLost(error);
        // It may be in the middle of a transaction.
        link.destroy();
        if (!isGone) throw withoutWords(error);
        lost = { why: reason(error).why, note: "" };
        await this.#again(losses, until, lost);
      }
    }
  }

  /**
   * One statement, which is one round trip. What a lost connection broke off is sent again: one that changes something
   * (`"once"`) finds by a token among its values that it was done before. `seconds` is how long it may take, where that is
   * not as usual. One that is `patient` waits as long as it may also while the server is known to be away. Rejects with
   * `StoreError` for what is about connections and time, else as the server says.
   */
  async query<Row extends object>(
    text: string,
    values: readonly Value[],
    again: "read" | "once",
    { seconds = this.#options.statementTimeout, patient = false }: Asking = {},
  ): Promise<Row[]> {
    const size = sizeOf(values);
    const note = again === "once" ? UNKNOWN : "";
    let until = this.#soon();
    let lost: ConnectionLoss | undefined;
    for (let losses = 0, conflicts = 0; ;) {
      const link = await this.#pool.take(until, size, { lost, patient });
      try {
        const rows = await link.run<Row>(text, values, seconds);
        this.#pool.put(link);
        return rows;
      } catch (error) {
        const isGone = link.lost || isLost(error);
        if (isGone) link.destroy();
        else this.#pool.put(link);
        if (error instanceof TooLong) throw unavailable(this.#address.where, error.message + note);
        if (isGone) {
          // The wait for a connection begins again: the time of the attempt does not count.
          if (losses++ === 0) until = this.#soon();
          lost = { why: reason(error).why, note };
          await this.#again(losses, until, lost);
        } else if (isConflict(error) && conflicts++ < CONFLICTS) {
          until = this.#soon();
          await sleep(Math.random() * 10 * conflicts);
        } else throw withoutWords(error);
      }
    }
  }

  /** Wait for what is under way, a while, and let go of it all. May be opened again. */
  close(): Promise<void> {
    return this.#pool.close();
  }

  #soon(): number {
    return Date.now() + this.#options.connectTimeout * 1000;
  }

  /** A moment, so that nothing turns in circles; the error where no time is left. */
  async #again(losses: number, until: number, { why, note }: ConnectionLoss): Promise<void> {
    if (Date.now() >= until) throw unavailable(this.#address.where, why + note);
    if (losses > 1) await sleep(Math.random() * Math.min(500, 10 * 2 ** losses));
  }
}

/** Whoever changed something and hears of a failure must not believe that nothing was changed. */
const UNKNOWN = "; whether the change was made is not known";

/** Characters, or bytes, of what a statement carries. */
function sizeOf(values: readonly Value[]): number {
  let size = 0;
  for (const value of values) {
    if (typeof value === "string" || Buffer.isBuffer(value)) size += value.length;
    else if (Array.isArray(value)) size += sizeOf(value as readonly Value[]);
  }
  return size;
}
