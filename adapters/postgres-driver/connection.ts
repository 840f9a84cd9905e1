import type { Client, ClientConfig, Notification } from "pg";
import { createDeadline } from "gantry/plugin";
import { createTlsOptions, type Address } from "./address.js";

/** Members of `pg.Client` that the package's types omit. */
interface ClientInternals {
  readonly processID: number;
  readonly secretKey: number;
  readonly connection: { readonly stream: { destroy(): void } };
  ref(): void;
  unref(): void;
}

/** The package's connection class, used only to send a cancel request. */
interface CancelConnection {
  readonly stream: { destroy(): void };
  on(event: "connect" | "sslconnect" | "error", listener: () => void): void;
  connect(port: number | string, host?: string): void;
  requestSsl(): void;
  cancel(processID: number, secretKey: number): void;
}

interface PgModule {
  readonly Client: new (config: ClientConfig) => Client;
  readonly Connection: unknown;
}

/** Value of a statement parameter. */
export type ParameterValue = string | number | boolean | null | Buffer | readonly (string | number | boolean | null)[];

/** Idle time after which the system probes the peer. */
const KEEP_ALIVE_DELAY_MS = 10_000;
/** Time after a cancel request at which the connection is destroyed. */
const CANCEL_TIMEOUT_MS = 2000;
const CLOSE_TIMEOUT_MS = 1000;

/** Error of a statement that exceeded its time limit. */
export class StatementTimeout extends Error {
  constructor(readonly seconds: number) {
    super(`no answer within ${seconds} s`);
  }
}

/** A connection to the server. Its errors contain neither the address nor the password. */
export class Connection {
  readonly #pg: PgModule;
  readonly #address: Address;
  readonly #client: Client;
  readonly #isEncrypted: boolean;
  #lossError: Error | undefined;
  /** Called once when the connection becomes unusable for any reason. */
  onLost: (() => void) | undefined;
  onNotification: ((payload: string) => void) | undefined;
  /** Start of the idle time, in ms since the epoch. Set by the pool. */
  idleSinceMs = 0;
  readonly createdAtMs = Date.now();

  private constructor(pg: PgModule, address: Address, isEncrypted: boolean) {
    this.#pg = pg;
    this.#address = address;
    this.#isEncrypted = isEncrypted;
    this.#client = new pg.Client(toClientConfig(address, isEncrypted));
    this.#client.on("error", (error) => this.#markLost(error));
    this.#client.on("end", () => this.#markLost(new Error("Connection terminated unexpectedly")));
    this.#client.on("notification", ({ payload }: Notification) => this.onNotification?.(payload ?? ""));
  }

  /**
   * Connects. Rejects with the error of `pg` or the system. Also rejects after `timeoutMs`, and on an abort of
   * `signal`. `holdsProcess`: whether the connection keeps the process alive.
   */
  static async open(
    address: Address,
    timeoutMs: number,
    signal: AbortSignal,
    holdsProcess = true,
  ): Promise<Connection> {
    const { default: pg } = await import("pg");
    const deadline = createDeadline(timeoutMs, signal);
    try {
      return await new Connection(pg, address, address.tls !== "none").#connect(deadline.signal, holdsProcess);
    } catch (error) {
      if (address.tls !== "if offered" || !/does not support SSL/.test(String(error))) throw error;
      return await new Connection(pg, address, false).#connect(deadline.signal, holdsProcess);
    } finally {
      deadline.clear();
    }
  }

  async #connect(deadlineSignal: AbortSignal, holdsProcess: boolean): Promise<this> {
    const destroy = (): void => this.destroy();
    deadlineSignal.addEventListener("abort", destroy);
    try {
      deadlineSignal.throwIfAborted();
      this.setProcessHold(holdsProcess);
      await this.#client.connect();
      // Encryption replaced the socket.
      this.setProcessHold(holdsProcess);
      return this;
    } catch (error) {
      this.destroy();
      throw deadlineSignal.aborted ? new Error("timeout expired") : error;
    } finally {
      deadlineSignal.removeEventListener("abort", destroy);
    }
  }

  get isLost(): boolean {
    return this.#lossError !== undefined;
  }

  /** Process id of the server's backend, as sent when the connection was opened. A pooler sends another number. */
  get backendProcessId(): number {
    return this.#internals.processID;
  }

  /**
   * Runs one statement, or several if there are no values. After `timeoutSeconds` (0: no limit) the connection
   * cancels the statement, rejects with `StatementTimeout`, and is destroyed.
   */
  async run<Row extends object>(
    text: string,
    values: readonly ParameterValue[],
    timeoutSeconds: number,
  ): Promise<Row[]> {
    let isTimedOut = false;
    let destroyTimer: NodeJS.Timeout | undefined;
    const cancel = (): void => {
      isTimedOut = true;
      this.#cancel();
      destroyTimer = setTimeout(() => this.destroy(), CANCEL_TIMEOUT_MS);
    };
    const timer = timeoutSeconds > 0 ? setTimeout(cancel, timeoutSeconds * 1000) : undefined;
    try {
      const result = await (values.length === 0
        ? this.#client.query<Row>(text)
        : this.#client.query<Row>(text, values as unknown[]));
      // For several statements the client returns a list of results.
      const lastResult = Array.isArray(result) ? (result as (typeof result)[]).at(-1) : result;
      return lastResult?.rows ?? [];
    } catch (error) {
      throw isTimedOut ? new StatementTimeout(timeoutSeconds) : error;
    } finally {
      clearTimeout(timer);
      clearTimeout(destroyTimer);
      // A late cancel request could hit the next statement.
      if (isTimedOut) this.destroy();
    }
  }

  /** Sets whether the connection keeps the process alive. */
  setProcessHold(holdsProcess: boolean): void {
    if (holdsProcess) this.#internals.ref();
    else this.#internals.unref();
  }

  /** Closes the connection with a message to the server. Resolves after a second at the latest. */
  async end(): Promise<void> {
    if (this.#lossError) return;
    this.#markLost(new Error("Connection terminated"));
    const timer = setTimeout(() => this.#destroySocket(), CLOSE_TIMEOUT_MS);
    await this.#client.end().catch(() => undefined);
    clearTimeout(timer);
  }

  /** Destroys the connection. Active statements reject. */
  destroy(error = new Error("Connection terminated")): void {
    this.#markLost(error);
    this.#destroySocket();
  }

  #destroySocket(): void {
    // Not `Client.end`, which may wait for the peer. The socket is read here, because encryption replaces it.
    this.#internals.connection.stream.destroy();
  }

  #markLost(error: Error): void {
    if (this.#lossError) return;
    this.#lossError = error;
    this.onLost?.();
  }

  /** Asks the server to cancel the active statement, over a separate connection. */
  #cancel(): void {
    const { host, port } = this.#address;
    const { processID, secretKey } = this.#internals;
    const ssl = this.#isEncrypted ? toClientConfig(this.#address, true).ssl : false;
    const CancelConnection = this.#pg.Connection as new (options: object) => CancelConnection;
    const cancelConnection = new CancelConnection({ ssl });
    const sendCancel = (): void => cancelConnection.cancel(processID, secretKey);
    cancelConnection.on("connect", () => (ssl ? cancelConnection.requestSsl() : sendCancel()));
    cancelConnection.on("sslconnect", sendCancel);
    cancelConnection.on("error", () => undefined);
    if (host.startsWith("/")) cancelConnection.connect(`${host}/.s.PGSQL.${port}`);
    else cancelConnection.connect(port, host);
    setTimeout(() => cancelConnection.stream.destroy(), CANCEL_TIMEOUT_MS).unref();
  }

  get #internals(): ClientInternals {
    return this.#client as unknown as ClientInternals;
  }
}

function toClientConfig(address: Address, isEncrypted: boolean): ClientConfig {
  const { host, port, user, password, database, applicationName: name, options, requiresChannelBinding } = address;
  return {
    host,
    port,
    user,
    // A function, so that `pg` does not read a password from a file or the environment.
    password,
    database,
    application_name: name,
    ...(options !== undefined && { options }),
    ssl: isEncrypted ? (createTlsOptions(address) ?? false) : false,
    enableChannelBinding: requiresChannelBinding,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
  };
}
