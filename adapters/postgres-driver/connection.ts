import type { Client, ClientConfig, Notification } from "pg";
import { tlsOptions, type Address } from "./address.js";

/** Members of `pg.Client` that the package's types omit. */
interface ClientInternals {
  readonly processID: number;
  readonly secretKey: number;
  readonly connection: { readonly stream: { destroy(): void } };
  ref(): void;
  unref(): void;
}

/** The package's connection class, used only to send a cancel request. */
interface Messenger {
  readonly stream: { destroy(): void };
  on(event: "connect" | "sslconnect" | "error", then: () => void): void;
  connect(port: number | string, host?: string): void;
  requestSsl(): void;
  cancel(processID: number, secretKey: number): void;
}

interface Pg {
  readonly Client: new (config: ClientConfig) => Client;
  readonly Connection: unknown;
}

/** Value of a statement parameter. */
export type ParameterValue = string | number | boolean | null | Buffer | readonly (string | number | boolean | null)[];

/** Idle time after which the system probes the peer, in ms. */
const KEEP_ALIVE_MS = 10_000;
/** Time for a cancelled statement to end, in ms; after that its connection is destroyed. */
const CANCEL_MS = 2000;
const CLOSE_TIMEOUT_MS = 1000;

/** Error of a statement that exceeded its time limit. */
export class StatementTimeout extends Error {
  constructor(readonly seconds: number) {
    super(`no answer within ${seconds} s`);
  }
}

/** A connection to the server. Its errors contain neither the address nor the password. */
export class Connection {
  readonly #pg: Pg;
  readonly #address: Address;
  readonly #client: Client;
  readonly #encrypted: boolean;
  #lost: Error | undefined;
  /** Called once when the connection becomes unusable for any reason. */
  onLost: (() => void) | undefined;
  onNotification: ((payload: string) => void) | undefined;
  /** Times of the last use and of the creation, in ms since the epoch. */
  idleSince = 0;
  readonly since = Date.now();

  private constructor(pg: Pg, address: Address, encrypted: boolean) {
    this.#pg = pg;
    this.#address = address;
    this.#encrypted = encrypted;
    this.#client = new pg.Client(config(address, encrypted));
    this.#client.on("error", (error) => this.#lose(error));
    this.#client.on("end", () => this.#lose(new Error("Connection terminated unexpectedly")));
    this.#client.on("notification", ({ payload }: Notification) => this.onNotification?.(payload ?? ""));
  }

  /**
   * Connects. Rejects with the error of `pg` or the system, after `ms` at the latest or on an abort of `signal`. With
   * `held` false the connection does not keep the process alive.
   */
  static async dial(address: Address, ms: number, signal: AbortSignal, held = true): Promise<Connection> {
    const { default: pg } = await import("pg");
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(ms)]);
    try {
      return await new Connection(pg, address, address.tls !== "none").#connect(deadline, held);
    } catch (error) {
      if (address.tls !== "if offered" || !/does not support SSL/.test(String(error))) throw error;
      return new Connection(pg, address, false).#connect(deadline, held);
    }
  }

  async #connect(deadline: AbortSignal, held: boolean): Promise<this> {
    const end = (): void => this.destroy();
    deadline.addEventListener("abort", end);
    try {
      deadline.throwIfAborted();
      this.keepAlive(held);
      await this.#client.connect();
      // Encryption replaced the socket.
      this.keepAlive(held);
      return this;
    } catch (error) {
      this.destroy();
      throw deadline.aborted ? new Error("timeout expired") : error;
    } finally {
      deadline.removeEventListener("abort", end);
    }
  }

  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  /** Process id of the server's backend, as sent at connection. A pooler sends another number. */
  get backend(): number {
    return this.#internals.processID;
  }

  /**
   * Runs one statement, or several if there are no values. After `seconds` (0: no limit) it cancels the statement,
   * rejects with a timeout error, and the connection is lost.
   */
  async run<Row extends object>(text: string, values: readonly ParameterValue[], seconds: number): Promise<Row[]> {
    let isLate = false;
    let end: NodeJS.Timeout | undefined;
    const cancel = (): void => {
      isLate = true;
      this.#cancel();
      end = setTimeout(() => this.destroy(), CANCEL_MS);
    };
    const timer = seconds > 0 ? setTimeout(cancel, seconds * 1000) : undefined;
    try {
      const result = await (values.length === 0
        ? this.#client.query<Row>(text)
        : this.#client.query<Row>(text, values as unknown[]));
      // Several statements return a list of results.
      const last = Array.isArray(result) ? (result as (typeof result)[]).at(-1) : result;
      return last?.rows ?? [];
    } catch (error) {
      throw isLate ? new StatementTimeout(seconds) : error;
    } finally {
      clearTimeout(timer);
      clearTimeout(end);
      // A late cancel request could hit the next statement.
      if (isLate) this.destroy();
    }
  }

  /** Sets whether the connection keeps the process alive. */
  keepAlive(held: boolean): void {
    if (held) this.#internals.ref();
    else this.#internals.unref();
  }

  /** Closes the connection in an orderly way. Resolves after a second at the latest. */
  async end(): Promise<void> {
    if (this.#lost) return;
    this.#lose(new Error("Connection terminated"));
    const timer = setTimeout(() => this.#destroySocket(), CLOSE_TIMEOUT_MS);
    await this.#client.end().catch(() => undefined);
    clearTimeout(timer);
  }

  /** Destroys the connection; active statements reject. */
  destroy(why = new Error("Connection terminated")): void {
    this.#lose(why);
    this.#destroySocket();
  }

  #destroySocket(): void {
    // `Client.end` may wait for the peer. Read each time, because encryption replaces the socket.
    this.#internals.connection.stream.destroy();
  }

  #lose(error: Error): void {
    if (this.#lost) return;
    this.#lost = error;
    this.onLost?.();
  }

  /** Asks the server to cancel the active statement, over a separate connection. */
  #cancel(): void {
    const { host, port } = this.#address;
    const { processID, secretKey } = this.#internals;
    const ssl = this.#encrypted ? config(this.#address, true).ssl : false;
    const Messenger = this.#pg.Connection as new (options: object) => Messenger;
    const messenger = new Messenger({ ssl });
    const send = (): void => messenger.cancel(processID, secretKey);
    messenger.on("connect", () => (ssl ? messenger.requestSsl() : send()));
    messenger.on("sslconnect", send);
    messenger.on("error", () => undefined);
    if (host.startsWith("/")) messenger.connect(`${host}/.s.PGSQL.${port}`);
    else messenger.connect(port, host);
    setTimeout(() => messenger.stream.destroy(), CANCEL_MS).unref();
  }

  get #internals(): ClientInternals {
    return this.#client as unknown as ClientInternals;
  }
}

function config(address: Address, encrypted: boolean): ClientConfig {
  const { host, port, user, password, database, name, options, requiresChannelBinding } = address;
  return {
    host,
    port,
    user,
    // A function, so that `pg` does not read a password from a file or the environment.
    password,
    database,
    application_name: name,
    ...(options !== undefined && { options }),
    ssl: encrypted ? (tlsOptions(address) ?? false) : false,
    enableChannelBinding: requiresChannelBinding,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
  };
}
