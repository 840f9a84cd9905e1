import type { Client, ClientConfig, Notification } from "pg";
import { tlsOptions, type Address } from "./address.js";

/** What the types of the package leave out. */
interface Inside {
  readonly processID: number;
  readonly secretKey: number;
  readonly connection: { readonly stream: { destroy(): void } };
  ref(): void;
  unref(): void;
}

/** A connection that only asks for a cancel, as the package has it. */
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

/** What a statement may carry. */
export type Value = string | number | boolean | null | Buffer | readonly (string | number | boolean | null)[];

/** Silence of a peer after which the system asks whether it is there still, in ms. */
const KEEP_ALIVE_MS = 10_000;
/** How long a cancelled statement may take to say so, in ms; then its connection is given up. */
const CANCEL_MS = 2000;
const GOODBYE_MS = 1000;

/** A statement took longer than it may. */
export class TooLong extends Error {
  constructor(readonly seconds: number) {
    super(`no answer within ${seconds} s`);
  }
}

/** One connection. What it says of itself has neither the address nor the password. */
export class Connection {
  readonly #pg: Pg;
  readonly #address: Address;
  readonly #client: Client;
  readonly #encrypted: boolean;
  #lost: Error | undefined;
  /** Called once, when it is of no use any more, however that came. */
  whenLost: (() => void) | undefined;
  whenNotified: ((payload: string) => void) | undefined;
  /** When it was put aside, and when it came about; both in ms. */
  idleSince = 0;
  readonly since = Date.now();

  private constructor(pg: Pg, address: Address, encrypted: boolean) {
    this.#pg = pg;
    this.#address = address;
    this.#encrypted = encrypted;
    this.#client = new pg.Client(config(address, encrypted));
    this.#client.on("error", (error) => this.#lose(error));
    this.#client.on("end", () => this.#lose(new Error("Connection terminated unexpectedly")));
    this.#client.on("notification", ({ payload }: Notification) => this.whenNotified?.(payload ?? ""));
  }

  /** Connect. Rejects as `pg` or the system says why not; at the latest after `ms`, or when the signal says so. With `held` false it keeps no process from ending. */
  static async dial(address: Address, ms: number, signal: AbortSignal, held = true): Promise<Connection> {
    const { default: pg } = await import("pg");
    const soon = AbortSignal.any([signal, AbortSignal.timeout(ms)]);
    try {
      return await new Connection(pg, address, address.tls !== "none").#connect(soon, held);
    } catch (error) {
      if (address.tls !== "if offered" || !/does not support SSL/.test(String(error))) throw error;
      return new Connection(pg, address, false).#connect(soon, held);
    }
  }

  async #connect(soon: AbortSignal, held: boolean): Promise<this> {
    const end = (): void => this.destroy();
    soon.addEventListener("abort", end);
    try {
      soon.throwIfAborted();
      this.hold(held);
      await this.#client.connect();
      // Encryption brought another socket.
      this.hold(held);
      return this;
    } catch (error) {
      this.destroy();
      throw soon.aborted ? new Error("timeout expired") : error;
    } finally {
      soon.removeEventListener("abort", end);
    }
  }

  get lost(): boolean {
    return this.#lost !== undefined;
  }

  /** Which process of the server this is, as the server told; a pooler in between tells another number. */
  get backend(): number {
    return this.#inside.processID;
  }

  /** One statement; several when there are no values. `TooLong` after so many seconds, for ever with 0; it is lost then. */
  async run<Row extends object>(text: string, values: readonly Value[], seconds: number): Promise<Row[]> {
    let late = false;
    let end: NodeJS.Timeout | undefined;
    const cancel = (): void => {
      late = true;
      this.#cancel();
      end = setTimeout(() => this.destroy(), CANCEL_MS);
    };
    const timer = seconds > 0 ? setTimeout(cancel, seconds * 1000) : undefined;
    try {
      const result = await (values.length === 0
        ? this.#client.query<Row>(text)
        : this.#client.query<Row>(text, values as unknown[]));
      // Several statements have several results.
      const last = Array.isArray(result) ? (result as (typeof result)[]).at(-1) : result;
      return last?.rows ?? [];
    } catch (error) {
      throw late ? new TooLong(seconds) : error;
    } finally {
      clearTimeout(timer);
      clearTimeout(end);
      // The cancel may come so late that it would hit the next statement.
      if (late) this.destroy();
    }
  }

  /** Whether it keeps the process from ending. */
  hold(held: boolean): void {
    if (held) this.#inside.ref();
    else this.#inside.unref();
  }

  /** Say goodbye; resolves when it is gone, which it is soon. */
  async end(): Promise<void> {
    if (this.#lost) return;
    this.#lose(new Error("Connection terminated"));
    const timer = setTimeout(() => this.#cut(), GOODBYE_MS);
    await this.#client.end().catch(() => undefined);
    clearTimeout(timer);
  }

  /** Cut it: what is under way on it rejects. */
  destroy(why = new Error("Connection terminated")): void {
    this.#lose(why);
    this.#cut();
  }

  #cut(): void {
    // Its own end may wait for the peer. Asked each time, because encryption brings another socket.
    this.#inside.connection.stream.destroy();
  }

  #lose(error: Error): void {
    if (this.#lost) return;
    this.#lost = error;
    this.whenLost?.();
  }

  /** Ask the server to break off what runs here, which goes by a connection of its own. */
  #cancel(): void {
    const { host, port } = this.#address;
    const { processID, secretKey } = this.#inside;
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

  get #inside(): Inside {
    return this.#client as unknown as Inside;
  }
}

function config(address: Address, encrypted: boolean): ClientConfig {
  const { host, port, user, password, database, name, options, bound } = address;
  return {
    host,
    port,
    user,
    // By a function, so that no file and no variable of the environment is asked for one.
    password,
    database,
    application_name: name,
    ...(options !== undefined && { options }),
    ssl: encrypted ? (tlsOptions(address) ?? false) : false,
    enableChannelBinding: bound,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
  };
}
