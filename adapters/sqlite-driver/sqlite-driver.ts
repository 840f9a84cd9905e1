import { StoreError } from "gantry";
import type {
  ChainData,
  ChainHead,
  Holder,
  Lease,
  Logger,
  Message,
  MessagePage,
  RunQuery,
  Session,
  SessionChange,
  SessionDriver,
  SessionPage,
  SessionQuery,
  SessionStart,
  Snapshot,
  StoredRun,
} from "gantry";
import { connect } from "./connection.js";
import type { Connection } from "./connection.js";
import { toStoreError } from "./errors.js";
import type { SqliteOptions } from "./options.js";
import {
  getRun,
  getSession,
  headOf,
  listMessages,
  listRuns,
  listSessions,
  listSnapshots,
  newestOfChain,
} from "./reads.js";
import { sessionOf } from "./rows.js";
import { setPragma } from "./kept.js";
import { Statements } from "./statements.js";
import { dumpChain, loadChain } from "./dump.js";
import { WriteQueue, patiently } from "./write-queue.js";
import { changeSession, createSession, deleteChains, releaseLease, takeLease } from "./writes.js";

/** Silence after a write before the write-ahead log is folded into the file, in ms. */
const IDLE_MS = 1000;

interface Opened {
  connection: Connection;
  statements: Statements;
  writes: WriteQueue;
}

/** Sessions in one SQLite file that any number of processes share. */
export class SqliteDriver implements SessionDriver {
  readonly name = "sqlite";
  readonly #options: SqliteOptions;
  readonly #logger: Logger | undefined;
  readonly #reads = new Set<Promise<unknown>>();
  #opening: Promise<Opened> | undefined;
  #closing: Promise<void> | undefined;
  #opened: Opened | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor(options: SqliteOptions, logger?: Logger) {
    this.#options = options;
    this.#logger = logger;
  }

  async open(): Promise<void> {
    await this.#closing;
    this.#opening ??= this.#start();
    await this.#opening;
  }

  async close(): Promise<void> {
    this.#closing ??= this.#stop().finally(() => (this.#closing = undefined));
    await this.#closing;
  }

  create(start: SessionStart): Promise<void> {
    return this.#write(true, (db) => createSession(db, start));
  }

  get(id: string): Promise<Session | undefined> {
    return this.#read((db) => {
      const row = getSession(db, id);
      return row && sessionOf(row);
    });
  }

  newest(rootId: string): Promise<Session | undefined> {
    return this.#read((db) => {
      const row = newestOfChain(db, rootId);
      return row && sessionOf(row);
    });
  }

  head(id: string): Promise<ChainHead | undefined> {
    return this.#read((db) => headOf(db, id));
  }

  list(query: SessionQuery): Promise<SessionPage> {
    return this.#read((db) => listSessions(db, query));
  }

  messages(id: string, page: MessagePage = {}): Promise<Message[]> {
    return this.#read((db) => listMessages(db, id, page));
  }

  snapshots(id: string): Promise<Snapshot[]> {
    return this.#read((db) => listSnapshots(db, id));
  }

  runs(query: RunQuery): Promise<StoredRun[]> {
    return this.#read((db) => listRuns(db, query));
  }

  run(id: string): Promise<StoredRun | undefined> {
    return this.#read((db) => getRun(db, id));
  }

  write(id: string, change: SessionChange): Promise<void> {
    return this.#write(change.sync, (db) => changeSession(db, id, change));
  }

  delete(ids: readonly string[]): Promise<void> {
    return this.#write(true, (db) => deleteChains(db, ids));
  }

  lease(rootId: string, holder: Holder, ttlMs: number, replacing?: string): Promise<Lease | { heldBy: Holder }> {
    return this.#write(false, (db) => takeLease(db, rootId, holder, ttlMs, replacing));
  }

  release(lease: Lease): Promise<void> {
    return this.#write(false, (db) => releaseLease(db, lease));
  }

  dump(id: string): Promise<ChainData | undefined> {
    return this.#read((db) => dumpChain(db, id));
  }

  load(chain: ChainData): Promise<void> {
    return this.#write(true, (db) => loadChain(db, chain));
  }

  async #start(): Promise<Opened> {
    try {
      const connection = await connect(this.#options, this.#logger, patiently);
      const { db, wal } = connection;
      const durable = this.#options.durability !== "normal";
      this.#opened = { connection, statements: new Statements(db), writes: new WriteQueue(db, { wal, durable }) };
      return this.#opened;
    } catch (error) {
      this.#opening = undefined;
      throw toStoreError(error, this.#options.path);
    }
  }

  async #stop(): Promise<void> {
    await this.#opening?.catch(() => undefined);
    const opened = this.#opened;
    // From here on nothing new is taken; what was taken is waited for.
    this.#opened = undefined;
    this.#opening = undefined;
    if (!opened) return;
    await Promise.allSettled([opened.writes.drained(), ...this.#reads]);
    clearTimeout(this.#idle);
    // The last connection to go folds the write-ahead log into the file.
    opened.connection.db.close();
  }

  #ready(): Opened {
    if (this.#opened) return this.#opened;
    throw new StoreError(`session store ${this.#options.path}: not open`);
  }

  async #read<T>(read: (db: Statements) => T): Promise<T> {
    const { statements } = this.#ready();
    const result = patiently(() => read(statements));
    const settled = result.catch(() => undefined);
    this.#reads.add(settled);
    try {
      return await result;
    } catch (error) {
      throw toStoreError(error, this.#options.path);
    } finally {
      this.#reads.delete(settled);
    }
  }

  async #write<T>(sync: boolean, change: (db: Statements) => T): Promise<T> {
    const { statements, writes, connection } = this.#ready();
    try {
      return await writes.add(sync, () => change(statements));
    } catch (error) {
      throw toStoreError(error, this.#options.path);
    } finally {
      this.#foldWhenIdle(connection);
    }
  }

  /** Keeps the write-ahead log short, and deleted text out of it. */
  #foldWhenIdle({ db, wal }: Connection): void {
    if (!wal || !this.#opened) return;
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => {
      try {
        setPragma(db, "wal_checkpoint(TRUNCATE)");
      } catch (error) {
        // Another process is writing or reading; its own pause will do.
        this.#logger?.debug("checkpoint of the session store put off", { why: String(error) });
      }
    }, IDLE_MS);
    this.#idle.unref();
  }
}
