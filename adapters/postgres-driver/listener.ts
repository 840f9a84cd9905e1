import { createHash, randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { ChainListeners } from "gantry/plugin";
import type { Logger } from "gantry";
import type { Notifier } from "gantry/plugin";
import type { Address } from "./address.js";
import type { Connections } from "./connections.js";
import { reason } from "./errors.js";
import { Connection } from "./connection.js";
import { CAPACITY_CHECK_INTERVAL_MS as ROOM_MS, readServerCapacity, type ServerCapacity } from "./server-capacity.js";

/** Minimum interval between two notification statements, in ms. Changes in between share the next one. */
const BATCH_MS = 50;
/**
 * Maximum number of chains per message, because a server limits messages to 8,000 bytes. More are sent as `*` (any
 * chain).
 */
const MAX_CHAINS = 400;
const ANY = "*";
/**
 * Polling intervals of watched chains in ms, with and without received messages. A message may be lost with its sender
 * or in transit.
 */
const POLL_INTERVAL_MS = 1000;
const UNNOTIFIED_POLL_INTERVAL_MS = 250;
/** Delay of the first poll of a chain, in ms. */
const FIRST_POLL_DELAY_MS = 200;
/**
 * Times in ms: how long an unneeded connection stays open, the timeout of a connection attempt, and the maximum delay
 * between attempts.
 */
const IDLE_TIMEOUT_MS = 10_000;
const CONNECT_TIMEOUT_MS = 5000;
const MAX_RETRY_DELAY_MS = 5000;
/** Maximum time for which `close` waits for unsent notifications, in ms. */
const CLOSE_TIMEOUT_MS = 1000;

/** Options of the notifier. */
export interface ListenOptions {
  /** Address of the server itself, if the other connections use a pooler. */
  address: Address;
  /**
   * Returns a state per chain (id of its original) that changes with each change of the chain, in one statement. A
   * missing chain has no entry.
   */
  states: (rootIds: readonly string[]) => Promise<ReadonlyMap<string, string>>;
  logger?: Logger | undefined;
}

/** A chain with subscribers. */
interface Watched {
  readonly rootId: string;
  subscribers: number;
  /** State at the last poll. Undefined before the first poll; null if the chain did not exist. */
  state?: string | null;
}

/**
 * Notifies other processes of changes through the database, and listens for theirs on a separate connection while there
 * are subscribers. It also polls all subscribed chains once a second, in one statement, to find lost notifications.
 * With a pooler that gives each statement to another connection, no notification arrives, and it polls four times a
 * second.
 */
export class PostgresNotifier implements Notifier {
  readonly #connections: Connections;
  readonly #channel: string;
  readonly #address: Address;
  readonly #logger: Logger | undefined;
  /** Both use short chain names (`nameOf`) as keys. */
  readonly #hints = new ChainListeners();
  readonly #watched = new Map<string, Watched>();
  readonly #states: ListenOptions["states"];
  #polling: Promise<void> | undefined;
  #soon: NodeJS.Timeout | undefined;
  readonly #senderId = randomBytes(6).toString("base64url");
  #life: AbortController | undefined = new AbortController();
  readonly #unpublished = new Set<string>();
  #publishing: Promise<void> | undefined;
  #pause: NodeJS.Timeout | undefined;
  #link: Connection | undefined;
  #dialing: Promise<void> | undefined;
  #failures = 0;
  #retry: NodeJS.Timeout | undefined;
  #pollTimer: NodeJS.Timeout | undefined;
  #idleTimer: NodeJS.Timeout | undefined;
  /** Whether the server has a connection for listening; a pooler has none. */
  #capacity: ServerCapacity = "enough";
  #capacityTimer: NodeJS.Timeout | undefined;

  /** Opens no connection. `channel` has at most 63 bytes. */
  constructor(connections: Connections, channel: string, { address, states, logger }: ListenOptions) {
    this.#connections = connections;
    this.#channel = channel;
    this.#address = address;
    this.#states = states;
    this.#logger = logger;
  }

  publish(rootId: string): void {
    if (!this.#life) return;
    this.#unpublished.add(this.#unpublished.size < MAX_CHAINS ? nameOf(rootId) : ANY);
    if (this.#publishing) return;
    // Keeps the process alive until the change is published.
    if (this.#pause) this.#pause.ref();
    else this.#publishing = this.#publishAll();
  }

  subscribe(rootId: string, hint: () => void): () => void {
    const name = nameOf(rootId);
    const end = this.#hints.subscribe(name, hint);
    const watched = this.#watched.get(name) ?? { rootId, subscribers: 0 };
    this.#watched.set(name, watched);
    watched.subscribers++;
    clearTimeout(this.#idleTimer);
    this.#listen();
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      end();
      if (--watched.subscribers === 0) this.#watched.delete(name);
      if (this.#watched.size > 0) return;
      clearInterval(this.#pollTimer);
      this.#pollTimer = undefined;
      this.#idleTimer = setTimeout(() => this.#link?.destroy(), IDLE_TIMEOUT_MS).unref();
    };
  }

  /** Publishes pending changes, for a limited time, and stops listening. Never rejects. `open` reverts it. */
  async close(): Promise<void> {
    if (!this.#life) return;
    this.#life.abort();
    this.#life = undefined;
    for (const timer of [this.#pause, this.#retry, this.#pollTimer, this.#soon, this.#idleTimer, this.#capacityTimer])
      clearTimeout(timer);
    this.#pause = this.#retry = this.#pollTimer = this.#soon = this.#idleTimer = undefined;
    const publishRemaining = async (): Promise<void> => {
      await this.#publishing;
      if (this.#unpublished.size > 0) await this.#publishAll();
    };
    await Promise.race([publishRemaining(), sleep(CLOSE_TIMEOUT_MS, undefined, { ref: false })]);
    await Promise.all([this.#dialing, this.#link?.end()]);
  }

  /** Only after `close`. */
  open(): void {
    this.#life ??= new AbortController();
    if (this.#watched.size > 0) this.#listen();
  }

  /** Publishes all pending changes at once. If that fails, other processes find them within a second by polling. */
  async #publishAll(): Promise<void> {
    const names = this.#unpublished.has(ANY) ? ANY : [...this.#unpublished].join();
    this.#unpublished.clear();
    try {
      // A separate commit without a sync: no other commit waits for it, and it need not survive a crash.
      await this.#connections.query(
        "SELECT pg_notify($1, $2), set_config('synchronous_commit', 'off', true)",
        [this.#channel, `${this.#senderId}:${names}`],
        "read",
      );
    } catch (error) {
      this.#logger?.debug("change notification not sent; other processes find it by polling", {
        reason: reason(error).why,
      });
    }
    this.#publishing = undefined;
    if (!this.#life) return;
    const next = (): void => {
      this.#pause = undefined;
      if (this.#unpublished.size > 0) this.#publishing = this.#publishAll();
    };
    this.#pause = setTimeout(next, BATCH_MS);
    if (this.#unpublished.size === 0) this.#pause.unref();
  }

  #listen(): void {
    if (!this.#life) return;
    this.#pollTimer ??= this.#startPolling();
    // A newly subscribed chain is polled soon, because earlier notifications for it were not received.
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      this.#poll(true);
    }, FIRST_POLL_DELAY_MS).unref();
    if (this.#link || this.#dialing || this.#retry || this.#capacity === "pooled") return;
    this.#dialing = this.#dial(this.#life.signal).finally(() => (this.#dialing = undefined));
  }

  #startPolling(): NodeJS.Timeout {
    return setInterval(
      () => this.#poll(),
      this.#capacity === "enough" ? POLL_INTERVAL_MS : UNNOTIFIED_POLL_INTERVAL_MS,
    ).unref();
  }

  #poll(onlyNew = false): void {
    if (!this.#life || this.#polling) return;
    const all = [...this.#watched].filter(([, { state }]) => !onlyNew || state === undefined);
    if (all.length > 0) this.#polling = this.#compare(all).finally(() => (this.#polling = undefined));
  }

  /** Notifies subscribers of chains with a changed state. Never rejects: readers of the store get the error. */
  async #compare(all: readonly (readonly [name: string, watched: Watched])[]): Promise<void> {
    try {
      const states = await this.#states(all.map(([, { rootId }]) => rootId));
      for (const [name, watched] of this.#life ? all : []) {
        const state = states.get(watched.rootId) ?? null;
        if (state === watched.state) continue;
        watched.state = state;
        this.#hints.notify(name);
      }
    } catch (error) {
      this.#logger?.debug("polling for changes of other processes failed", { reason: reason(error).why });
    }
  }

  /** Never rejects. */
  async #dial(signal: AbortSignal): Promise<void> {
    let link: Connection | undefined;
    try {
      link = await Connection.dial(this.#address, CONNECT_TIMEOUT_MS, signal, false);
      if (!(await this.#mayListen(link))) return;
      link.onNotification = (payload) => this.#receive(payload);
      await link.run(`LISTEN "${this.#channel.replaceAll('"', '""')}"`, [], CONNECT_TIMEOUT_MS / 1000);
      signal.throwIfAborted();
      link.onLost = () => this.#lost();
      this.#link = link;
      this.#failures = 0;
      this.#checkCapacityLater();
    } catch (error) {
      link?.destroy();
      this.#logger?.debug("listening for changes of other processes failed; retrying", { reason: reason(error).why });
      this.#listenLater();
    }
  }

  /** Whether the server has enough connections for working calls. If not, ends the listening connection. */
  async #mayListen(link: Connection): Promise<boolean> {
    const before = this.#capacity;
    this.#capacity = await readServerCapacity(link);
    if (this.#capacity !== before && this.#pollTimer) {
      clearInterval(this.#pollTimer);
      this.#pollTimer = this.#startPolling();
    }
    if (this.#capacity === "enough") return true;
    if (this.#capacity === "pooled")
      this.#logger?.warn(
        "the session store's pooler passes no notifications; polling four times a second; " +
          "name the server itself in session.pool.listen_url",
        { store: this.#address.where },
      );
    await link.end();
    if (this.#link !== link) this.#listenLater();
    return false;
  }

  /** Checks later whether other processes lack this connection, because they cannot report it themselves. */
  #checkCapacityLater(): void {
    const look = (): void => {
      const link = this.#link;
      if (!link) return;
      this.#mayListen(link).then(
        (may) => may && this.#checkCapacityLater(),
        () => link.destroy(),
      );
    };
    clearTimeout(this.#capacityTimer);
    this.#capacityTimer = setTimeout(look, ROOM_MS).unref();
  }

  #lost(): void {
    this.#link = undefined;
    this.#poll();
    this.#listenLater();
  }

  /** Listens again after a delay. Polling finds the changes in between. */
  #listenLater(): void {
    if (!this.#life || this.#retry || this.#watched.size === 0 || this.#capacity === "pooled") return;
    const pause =
      this.#capacity === "scarce" ? MAX_RETRY_DELAY_MS : Math.min(MAX_RETRY_DELAY_MS, 100 * 2 ** this.#failures++);
    const again = (): void => {
      this.#retry = undefined;
      if (this.#watched.size > 0) this.#listen();
    };
    this.#retry = setTimeout(again, pause * (0.5 + Math.random() / 2)).unref();
  }

  /** Ignores the messages of this process, which the server returns too. */
  #receive(payload: string): void {
    const [, sender, names = ""] = /^([^:]*):(.*)$/.exec(payload) ?? [];
    if (sender === undefined || sender === this.#senderId) return;
    if (names === ANY) this.#poll();
    else for (const name of names.split(",")) this.#hints.notify(name);
  }
}

/** Short name of fixed length, without user text. On a collision a subscriber gets an unneeded notification. */
function nameOf(rootId: string): string {
  return createHash("sha256").update(rootId).digest("base64url").slice(0, 16);
}
