import { dirname } from "node:path";
import type { Database } from "better-sqlite3";
import { DiskReserve, DriverLifecycle, PollingNotifier } from "gantry/plugin";
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
import { forgetKeys, listAsks } from "./asks.js";
import { connect, type OpenDatabase } from "./connection.js";
import { explain } from "./errors.js";
import type { SqliteOptions } from "./options.js";
import { findSessionRow, readHead, listInstructions, listMessages, listRuns } from "./reads.js";
import { listSessions } from "./session-list.js";
import { toSession } from "./rows.js";
import { setPragma } from "./retained-objects.js";
import { Statements } from "./statements.js";
import { dumpChain, loadChain } from "./dump.js";
import { LogSync, WriteQueue, retryWhileBusy, type ChangeOptions } from "./write-queue.js";
import { changeSession, createSession, deleteChains, takeLease } from "./writes.js";

/** Time without writes after which the write-ahead log is merged into the file. */
const CHECKPOINT_DELAY_MS = 1000;

interface OpenStore extends OpenDatabase {
  statements: Statements;
  /** Undefined if a commit alone gives the required durability. */
  logSync: LogSync | undefined;
  writeQueue: WriteQueue;
}

/** Stores sessions in one SQLite file that any number of processes share. */
export class SqliteDriver implements SessionDriver {
  readonly name = "sqlite";
  readonly separatesUsers = true;
  readonly notifier = new PollingNotifier(() => this.#isChanged());
  readonly #path: string;
  readonly #reserve: DiskReserve;
  readonly #logger: Logger | undefined;
  readonly #lifecycle: DriverLifecycle<OpenStore>;
  #checkpointTimer: NodeJS.Timeout | undefined;
  /** Undefined while the store is not open. */
  #statements: Statements | undefined;
  /** SQLite's `data_version` at the last poll. */
  #dataVersion: unknown;

  constructor(options: SqliteOptions, logger?: Logger) {
    this.#path = options.path;
    this.#reserve = new DiskReserve(`${options.path}-reserve`, dirname(options.path));
    this.#logger = logger;
    this.#lifecycle = new DriverLifecycle({
      location: options.path,
      open: async () => {
        const connection = await connect(options, logger, (step) => retryWhileBusy(step, options.path));
        const { db, hasWal } = connection;
        const statements = new Statements(db, connection.clock);
        this.#statements = statements;
        const freeSpace = ({ usesReserve }: { usesReserve: boolean }): void => {
          if (usesReserve) this.#reserve.release();
          if (hasWal) this.#checkpoint(db);
        };
        const logSync = hasWal && options.durability !== "normal" ? new LogSync(options.path) : undefined;
        return { ...connection, statements, logSync, writeQueue: new WriteQueue(db, options.path, logSync, freeSpace) };
      },
      close: ({ db, logSync }) => {
        clearTimeout(this.#checkpointTimer);
        this.#checkpointTimer = undefined;
        this.#statements = undefined;
        logSync?.close();
        // The last connection to close merges the write-ahead log into the file.
        db.close();
      },
      explain,
    });
  }

  get clockOffsetMs(): number {
    return this.#statements?.clockOffsetMs ?? 0;
  }

  open(): Promise<void> {
    return this.#lifecycle.open();
  }

  close(): Promise<void> {
    return this.#lifecycle.close();
  }

  create(start: SessionStart): Promise<void> {
    return this.#write({ needsSync: start.sync !== false }, (db) => void createSession(db, start));
  }

  get(id: string): Promise<Session | undefined> {
    return this.#read((db) => {
      const row = findSessionRow(db, id);
      return row && toSession(row);
    });
  }

  head(id: string, options = { messages: true }): Promise<ChainHead | undefined> {
    return this.#read((db) => readHead(db, id, options));
  }

  list(query: SessionQuery): Promise<SessionPage> {
    return this.#read((db) => listSessions(db, query));
  }

  messages(id: string, page: MessageQuery = {}): Promise<Message[]> {
    return this.#read((db) => listMessages(db, id, page));
  }

  runs(query: RunQuery): Promise<StoredRun[]> {
    return this.#read((db) => listRuns(db, query));
  }

  asks(query: AskQuery): Promise<Ask[]> {
    return this.#read((db) => listAsks(db, query));
  }

  instructions(sessionId: string): Promise<Instruction[]> {
    return this.#read((db) => listInstructions(db, sessionId));
  }

  forgetKeys(before: string): Promise<void> {
    return this.#write({ needsSync: false }, (db) => forgetKeys(db, before));
  }

  write(id: string, change: SessionChange): Promise<ChangeResult> {
    // A change of a run must not be lost because another process is slow.
    const isPatient = change.fence !== null;
    return this.#write({ needsSync: change.sync, isPatient }, (db) => changeSession(db, id, change));
  }

  delete(ids: readonly string[]): Promise<void> {
    return this.#write({ needsSync: true, usesReserve: true }, (db) => deleteChains(db, ids));
  }

  lease(
    rootId: string,
    holder: LeaseHolder,
    ttlMs: number,
    options?: LeaseOptions,
  ): Promise<AcquiredLease | LeaseConflict> {
    return this.#write({ needsSync: false }, (db) => takeLease(db, rootId, holder, ttlMs, options));
  }

  probe(): Promise<void> {
    return this.#lifecycle.run(async ({ db, statements }) => {
      const { probeStore } = await import("./probe.js");
      await probeStore(db, statements, this.#path);
    });
  }

  synced(): Promise<void> {
    return this.#lifecycle.run(({ writeQueue }) => writeQueue.waitUntilSynced());
  }

  dump(id: string): Promise<ChainData | undefined> {
    return this.#read((db) => dumpChain(db, id));
  }

  load(chain: ChainData): Promise<void> {
    return this.#write({ needsSync: true }, (db) => loadChain(db, chain));
  }

  searchMessages(query: MessageSearchQuery): Promise<MessageSearchPage> {
    return this.#lifecycle.run(async ({ db, hasWal, statements, writeQueue }) => {
      // Loaded with the first search.
      const { searchMessages } = await import("./search.js");
      try {
        return await searchMessages(statements, writeQueue, query);
      } finally {
        if (hasWal) this.#checkpointWhenIdle(db);
      }
    });
  }

  /** Whether another connection wrote to the file since the last call. */
  #isChanged(): boolean {
    const dataVersion = this.#statements?.get<{ data_version: number }>("PRAGMA data_version")?.data_version;
    const isChanged = dataVersion !== this.#dataVersion;
    this.#dataVersion = dataVersion;
    return isChanged;
  }

  #read<T>(read: (db: Statements) => T): Promise<T> {
    return this.#lifecycle.run(({ statements }) => retryWhileBusy(() => read(statements), this.#path));
  }

  #write<T>(options: ChangeOptions, change: (db: Statements) => T): Promise<T> {
    return this.#lifecycle.run(async ({ db, hasWal, statements, writeQueue }) => {
      try {
        return await writeQueue.add(options, () => change(statements));
      } finally {
        if (hasWal) this.#checkpointWhenIdle(db);
      }
    });
  }

  /** Keeps the write-ahead log short and removes deleted text from it. */
  #checkpointWhenIdle(db: Database): void {
    if (this.#checkpointTimer?.refresh()) return;
    this.#checkpointTimer = setTimeout(() => {
      this.#checkpoint(db);
      void this.#lifecycle.run(() => this.#reserve.fill()).catch(() => undefined);
    }, CHECKPOINT_DELAY_MS);
    this.#checkpointTimer.unref();
  }

  #checkpoint(db: Database): void {
    try {
      setPragma(db, "wal_checkpoint(TRUNCATE)");
    } catch (error) {
      // Another process is writing or reading. That process makes a checkpoint when it is idle.
      this.#logger?.debug("checkpoint of the session store postponed", { reason: String(error) });
    }
  }
}
