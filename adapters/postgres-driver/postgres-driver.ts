import { DriverLifecycle, MeasuredClock } from "gantry/plugin";
import type { Ask, Logger, Message, Session } from "gantry";
import type {
  AskQuery,
  ChainData,
  ChainHead,
  ChangeResult,
  LeaseHolder,
  Instruction,
  LeaseConflict,
  LeaseOptions,
  AcquiredLease,
  MessageQuery,
  MessageSearchPage,
  MessageSearchQuery,
  RunQuery,
  SessionChange,
  SessionDriver,
  SessionPage,
  SessionQuery,
  SessionStart,
  StoredRun,
} from "gantry/plugin";
import { parseAddress } from "./address.js";
import { Connections, type Query } from "./connections.js";
import { explain } from "./errors.js";
import { applyDefaults } from "./options.js";
import type { PostgresOptions } from "./options.js";
import { PostgresNotifier } from "./listener.js";
import { KeyQueue } from "./key-queue.js";
import {
  dumpChain,
  getSession,
  readChainHead,
  listAsks,
  listInstructions,
  listMessages,
  listRuns,
  readChainStates,
} from "./reads.js";
import { listSessions } from "./session-list.js";
import { toDriverError } from "./sql-errors.js";
import { prepareSchema } from "./schema.js";
import { SchemaStore } from "./store.js";
import { changeSession, createSession, deleteChains, forgetKeys, loadChain, takeLease } from "./writes.js";
import type { PreparedChange } from "./writes.js";

/** Stores sessions in a schema of a PostgreSQL database, shared by any number of processes on any number of hosts. */
export class PostgresDriver implements SessionDriver {
  readonly name = "postgres";
  readonly separatesUsers = true;
  readonly notifier: PostgresNotifier;
  readonly #lifecycle: DriverLifecycle<SchemaStore>;
  readonly #keyQueue = new KeyQueue();
  readonly #clock = new MeasuredClock();
  readonly #isFullyDurable: boolean;

  /** Throws `ConfigError` for an invalid URL. */
  constructor(input: PostgresOptions, logger?: Logger) {
    const options = applyDefaults(input);
    this.#isFullyDurable = options.durability === "full";
    const connections = new Connections(options, logger);
    const { listenUrl } = options.pool;
    const address = listenUrl === "" ? connections.address : parseAddress(listenUrl, "session.pool.listen_url");
    const store = new SchemaStore(connections, options.schema);
    const readStates = (rootIds: readonly string[]): Promise<Map<string, string>> => readChainStates(store, rootIds);
    const notifier = new PostgresNotifier(connections, `gantry ${options.schema}`, {
      address,
      readStates,
      logger,
    });
    this.notifier = notifier;
    this.#lifecycle = new DriverLifecycle({
      location: connections.location,
      open: async () => {
        try {
          await connections.open(async (query) => {
            await prepareSchema(query, options.schema);
            await this.#measureClock(query);
          });
        } catch (error) {
          await connections.close();
          throw error;
        }
        notifier.open();
        return store;
      },
      close: async () => {
        await notifier.close();
        await connections.close();
      },
      explain,
    });
  }

  get clockOffsetMs(): number {
    return this.#clock.offsetMs;
  }

  open(): Promise<void> {
    return this.#lifecycle.open();
  }

  close(): Promise<void> {
    return this.#lifecycle.close();
  }

  create(start: SessionStart): Promise<void> {
    const { id, alias, chain } = start.session;
    this.#keyQueue.cacheRoot(id, chain.root);
    const names = alias === "" ? [id] : [id, alias];
    const keys = [this.#toChainKey(chain.root), ...names.map((name) => `name ${name}`), ...toRunKeys(start.run)];
    return this.#change(keys, () => createSession(start, this.#isFullyDurable));
  }

  async get(id: string): Promise<Session | undefined> {
    const session = await this.#read((store) => getSession(store, id));
    this.#cacheRoots(session);
    return session;
  }

  async head(id: string, options = { messages: true }): Promise<ChainHead | undefined> {
    const head = await this.#read((store) => readChainHead(store, id, options.messages));
    this.#cacheRoots(head?.root, head?.newest);
    return head;
  }

  async list(query: SessionQuery): Promise<SessionPage> {
    const page = await this.#read((store) => listSessions(store, query));
    this.#cacheRoots(...page.sessions);
    return page;
  }

  messages(id: string, page: MessageQuery = {}): Promise<Message[]> {
    return this.#read((store) => listMessages(store, id, page));
  }

  async runs(query: RunQuery): Promise<StoredRun[]> {
    const runs = await this.#read((store) => listRuns(store, query));
    for (const { run } of runs) this.#keyQueue.cacheRoot(run.sessionId, run.sessionId);
    return runs;
  }

  async asks(query: AskQuery): Promise<Ask[]> {
    const asks = await this.#read((store) => listAsks(store, query));
    for (const { sessionId } of asks) this.#keyQueue.cacheRoot(sessionId, sessionId);
    return asks;
  }

  instructions(sessionId: string): Promise<Instruction[]> {
    return this.#read((store) => listInstructions(store, sessionId));
  }

  forgetKeys(before: string): Promise<void> {
    return this.#change([], () => forgetKeys(before));
  }

  write(id: string, change: SessionChange): Promise<ChangeResult> {
    const { runs = [], asks = [], instruct } = change;
    const keys = [
      this.#keyQueue.getChainKey(id),
      ...runs.flatMap(toRunKeys),
      ...asks.map((ask) => `ask ${ask.id}`),
      ...(instruct ? [`instruction ${instruct.id}`] : []),
    ];
    return this.#change(keys, () => changeSession(id, change, this.#isFullyDurable));
  }

  delete(ids: readonly string[]): Promise<void> {
    const keys = ids.map((id) => this.#keyQueue.getChainKey(id));
    return this.#change(keys, () => deleteChains(ids));
  }

  async lease(
    id: string,
    holder: LeaseHolder,
    ttlMs: number,
    options?: LeaseOptions,
  ): Promise<AcquiredLease | LeaseConflict> {
    const chainKey = this.#keyQueue.getChainKey(id) ?? this.#toChainKey(id);
    const startedAtMs = Date.now();
    const lease = await this.#change([chainKey], () => takeLease(id, holder, ttlMs, options));
    // A lease contains the database's time, so that the clock needs no query of its own.
    if (!("heldBy" in lease) && this.#clock.isOutdated)
      this.#clock.update(Date.parse(lease.expiresAt) - Math.round(ttlMs), startedAtMs);
    const { rootId } = "heldBy" in lease ? lease.heldBy : lease;
    this.#keyQueue.cacheRoot(id, rootId);
    if ("head" in lease) this.#cacheRoots(lease.head?.root, lease.head?.newest);
    return lease;
  }

  dump(id: string): Promise<ChainData | undefined> {
    return this.#read((store) => dumpChain(store, id));
  }

  load(chain: ChainData): Promise<void> {
    const root = chain.sessions[0]?.session.id ?? "";
    for (const { session } of chain.sessions) this.#keyQueue.cacheRoot(session.id, root);
    // Unknown keys, because a chain may have any number of ids, aliases and keys.
    return this.#change([undefined], () => loadChain(chain, this.#isFullyDurable));
  }

  searchMessages(query: MessageSearchQuery): Promise<MessageSearchPage> {
    return this.#lifecycle.run(async (store) => {
      // Loaded with the first search.
      const { searchMessages } = await import("./search.js");
      return searchMessages(this, store, query);
    });
  }

  async #measureClock(query: Query): Promise<void> {
    const startedAtMs = Date.now();
    const [row] = await query<{ now: string }>(
      "SELECT floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::text AS now",
      [],
    );
    if (row) this.#clock.update(Number(row.now), startedAtMs);
  }

  #toChainKey(root: string): string {
    return `chain ${root}`;
  }

  #cacheRoots(...sessions: readonly (Session | undefined)[]): void {
    for (const session of sessions) if (session) this.#keyQueue.cacheRoot(session.id, session.chain.root);
  }

  #read<T>(read: (store: SchemaStore) => Promise<T>): Promise<T> {
    return this.#lifecycle.run((store) => read(store));
  }

  #change<T>(keys: readonly (string | undefined)[], prepare: () => PreparedChange<T>): Promise<T> {
    return this.#lifecycle.run(async (store) => {
      try {
        const change = prepare();
        return await this.#keyQueue.runAfter(keys, () => change(store));
      } catch (error) {
        throw toDriverError(error) ?? error;
      }
    });
  }
}

function toRunKeys(run: SessionStart["run"]): string[] {
  return run && run.idempotencyKey !== "" ? [`key ${run.idempotencyKey}`] : [];
}
