import { ChainListeners } from "gantry/plugin";
import type { Logger } from "gantry";
import type { Notifier } from "gantry/plugin";
import type { Address } from "./address.js";
import { ANY_CHAIN, ChangePublisher, toShortName } from "./change-publisher.js";
import type { Connections } from "./connections.js";
import { describeError } from "./errors.js";
import { Connection } from "./connection.js";
import { CAPACITY_CHECK_INTERVAL_MS, readServerCapacity, type ServerCapacity } from "./server-capacity.js";

/** Polling interval of watched chains while messages arrive. A message may be lost with its sender or in transit. */
const POLL_INTERVAL_MS = 1000;
/** Polling interval of watched chains without messages. */
const UNNOTIFIED_POLL_INTERVAL_MS = 250;
/** Delay of the first poll of a chain. */
const FIRST_POLL_DELAY_MS = 200;
/** Time for which the connection stays open without subscribers. */
const IDLE_TIMEOUT_MS = 10_000;
const CONNECT_TIMEOUT_MS = 5000;
/** Delay after the first failure to listen. Doubles with each failure. */
const INITIAL_RETRY_DELAY_MS = 100;
const MAX_RETRY_DELAY_MS = 5000;

export interface NotifierOptions {
  /** Address of the server itself, if the other connections use a pooler. */
  address: Address;
  /**
   * Returns, in one statement, a state per chain (by root id) that differs after each change of the chain. A missing
   * chain has no entry.
   */
  readStates: (rootIds: readonly string[]) => Promise<ReadonlyMap<string, string>>;
  logger?: Logger | undefined;
}

interface WatchedChain {
  readonly rootId: string;
  subscriberCount: number;
  /** State at the last poll. Undefined before the first poll; null if the chain did not exist. */
  state?: string | null;
}

/**
 * Notifies other processes of changes through the database, and listens for theirs on a separate connection while there
 * are subscribers. The notifier also polls all subscribed chains once a second, in one statement, to find lost
 * notifications. Through a pooler that gives each statement to another connection, no notification arrives; the
 * notifier then polls four times a second.
 */
export class PostgresNotifier implements Notifier {
  readonly #publisher: ChangePublisher;
  readonly #channel: string;
  readonly #address: Address;
  readonly #logger: Logger | undefined;
  /** Listeners by short chain name (`toShortName`). */
  readonly #listeners = new ChainListeners();
  /** Chains with subscribers by short chain name. */
  readonly #watchedChainsByName = new Map<string, WatchedChain>();
  readonly #readStates: NotifierOptions["readStates"];
  #activePoll: Promise<void> | undefined;
  #firstPollTimer: NodeJS.Timeout | undefined;
  #lifetime: AbortController | undefined = new AbortController();
  #connection: Connection | undefined;
  #activeConnect: Promise<void> | undefined;
  #failureCount = 0;
  #retryTimer: NodeJS.Timeout | undefined;
  #pollTimer: NodeJS.Timeout | undefined;
  #idleTimer: NodeJS.Timeout | undefined;
  /** Free connections of the server at the last check. A pooler allows no listening. */
  #capacity: ServerCapacity = "enough";
  #capacityTimer: NodeJS.Timeout | undefined;

  /** Opens no connection. `channel` has at most 63 bytes. */
  constructor(connections: Connections, channel: string, { address, readStates, logger }: NotifierOptions) {
    this.#publisher = new ChangePublisher(connections, channel, logger);
    this.#channel = channel;
    this.#address = address;
    this.#readStates = readStates;
    this.#logger = logger;
  }

  publish(rootId: string): void {
    this.#publisher.publish(rootId);
  }

  subscribe(rootId: string, hint: () => void): () => void {
    const name = toShortName(rootId);
    const unsubscribe = this.#listeners.subscribe(name, hint);
    const watchedChain = this.#watchedChainsByName.get(name) ?? { rootId, subscriberCount: 0 };
    this.#watchedChainsByName.set(name, watchedChain);
    watchedChain.subscriberCount++;
    clearTimeout(this.#idleTimer);
    this.#listen();
    let isEnded = false;
    return () => {
      if (isEnded) return;
      isEnded = true;
      unsubscribe();
      if (--watchedChain.subscriberCount === 0) this.#watchedChainsByName.delete(name);
      if (this.#watchedChainsByName.size > 0) return;
      clearInterval(this.#pollTimer);
      this.#pollTimer = undefined;
      this.#idleTimer = setTimeout(() => this.#connection?.destroy(), IDLE_TIMEOUT_MS).unref();
    };
  }

  /** Publishes pending changes, for a limited time, and stops listening. Never rejects. `open` resumes. */
  async close(): Promise<void> {
    if (!this.#lifetime) return;
    this.#lifetime.abort();
    this.#lifetime = undefined;
    for (const timer of [this.#retryTimer, this.#pollTimer, this.#firstPollTimer, this.#idleTimer, this.#capacityTimer])
      clearTimeout(timer);
    this.#retryTimer = this.#pollTimer = this.#firstPollTimer = this.#idleTimer = undefined;
    await this.#publisher.close();
    await Promise.all([this.#activeConnect, this.#connection?.end()]);
  }

  open(): void {
    this.#lifetime ??= new AbortController();
    this.#publisher.open();
    if (this.#watchedChainsByName.size > 0) this.#listen();
  }

  #listen(): void {
    if (!this.#lifetime) return;
    this.#pollTimer ??= this.#startPolling();
    // A newly subscribed chain is polled soon, because earlier notifications for it were not received.
    this.#firstPollTimer ??= setTimeout(() => {
      this.#firstPollTimer = undefined;
      this.#poll(true);
    }, FIRST_POLL_DELAY_MS).unref();
    if (this.#connection || this.#activeConnect || this.#retryTimer || this.#capacity === "pooled") return;
    this.#activeConnect = this.#connect(this.#lifetime.signal).finally(() => (this.#activeConnect = undefined));
  }

  #startPolling(): NodeJS.Timeout {
    return setInterval(
      () => this.#poll(),
      this.#capacity === "enough" ? POLL_INTERVAL_MS : UNNOTIFIED_POLL_INTERVAL_MS,
    ).unref();
  }

  #poll(onlyNew = false): void {
    if (!this.#lifetime || this.#activePoll) return;
    const chains = [...this.#watchedChainsByName].filter(([, { state }]) => !onlyNew || state === undefined);
    if (chains.length > 0) this.#activePoll = this.#notifyChanged(chains).finally(() => (this.#activePoll = undefined));
  }

  /** Polls and notifies the subscribers of changed chains. Never rejects: readers of the store get the error. */
  async #notifyChanged(chains: readonly (readonly [name: string, watchedChain: WatchedChain])[]): Promise<void> {
    try {
      const states = await this.#readStates(chains.map(([, { rootId }]) => rootId));
      for (const [name, watchedChain] of this.#lifetime ? chains : []) {
        const state = states.get(watchedChain.rootId) ?? null;
        if (state === watchedChain.state) continue;
        watchedChain.state = state;
        this.#listeners.notify(name);
      }
    } catch (error) {
      this.#logger?.debug("polling for changes of other processes failed", { reason: describeError(error).reason });
    }
  }

  /** Never rejects. */
  async #connect(signal: AbortSignal): Promise<void> {
    let connection: Connection | undefined;
    try {
      connection = await Connection.open(this.#address, CONNECT_TIMEOUT_MS, signal, false);
      if (!(await this.#checkCapacity(connection))) return;
      connection.onNotification = (payload) => this.#receive(payload);
      await connection.run(`LISTEN "${this.#channel.replaceAll('"', '""')}"`, [], CONNECT_TIMEOUT_MS / 1000);
      signal.throwIfAborted();
      connection.onLost = () => this.#handleLoss();
      this.#connection = connection;
      this.#failureCount = 0;
      this.#scheduleCapacityCheck();
    } catch (error) {
      connection?.destroy();
      this.#logger?.debug("listening for changes of other processes failed; retrying", {
        reason: describeError(error).reason,
      });
      this.#scheduleListen();
    }
  }

  /** Returns whether the server has enough connections for other calls. If not, closes the listening connection. */
  async #checkCapacity(connection: Connection): Promise<boolean> {
    const previousCapacity = this.#capacity;
    this.#capacity = await readServerCapacity(connection);
    if (this.#capacity !== previousCapacity && this.#pollTimer) {
      clearInterval(this.#pollTimer);
      this.#pollTimer = this.#startPolling();
    }
    if (this.#capacity === "enough") return true;
    if (this.#capacity === "pooled")
      this.#logger?.warn(
        "the session store's pooler passes no notifications; polling four times a second; " +
          "name the server itself in session.pool.listen_url",
        { store: this.#address.location },
      );
    await connection.end();
    if (this.#connection !== connection) this.#scheduleListen();
    return false;
  }

  /** Schedules the next check whether other processes need this connection. */
  #scheduleCapacityCheck(): void {
    const check = (): void => {
      const connection = this.#connection;
      if (!connection) return;
      this.#checkCapacity(connection).then(
        (canListen) => canListen && this.#scheduleCapacityCheck(),
        () => connection.destroy(),
      );
    };
    clearTimeout(this.#capacityTimer);
    this.#capacityTimer = setTimeout(check, CAPACITY_CHECK_INTERVAL_MS).unref();
  }

  #handleLoss(): void {
    this.#connection = undefined;
    this.#poll();
    this.#scheduleListen();
  }

  /** Listens again after a delay. Polling finds the changes in between. */
  #scheduleListen(): void {
    if (!this.#lifetime || this.#retryTimer || this.#watchedChainsByName.size === 0 || this.#capacity === "pooled")
      return;
    const delayMs =
      this.#capacity === "scarce"
        ? MAX_RETRY_DELAY_MS
        : Math.min(MAX_RETRY_DELAY_MS, INITIAL_RETRY_DELAY_MS * 2 ** this.#failureCount++);
    const listen = (): void => {
      this.#retryTimer = undefined;
      if (this.#watchedChainsByName.size > 0) this.#listen();
    };
    this.#retryTimer = setTimeout(listen, delayMs * (0.5 + Math.random() / 2)).unref();
  }

  #receive(payload: string): void {
    const names = this.#publisher.readForeignNames(payload);
    if (names.includes(ANY_CHAIN)) this.#poll();
    else for (const name of names) this.#listeners.notify(name);
  }
}
