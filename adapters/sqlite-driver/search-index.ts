import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { toIndexTerms } from "gantry/plugin";
import { readMessage } from "./reads.js";
import type { MessageRow } from "./rows.js";
import type { Statements } from "./statements.js";
import { retryWhileBusy, type WriteQueue } from "./write-queue.js";

/**
 * Name of the index, and prefix of its tables. A change of the terms or tables needs a new name, so that two versions
 * of gantry can share a file.
 */
export const INDEX = "search_v1";

/**
 * Tables and triggers, created by the first search. They are no part of the file's version: other versions of gantry
 * ignore them, and the triggers work there too.
 *
 * - `search_v1`: terms of each message by its `n`. The table stores neither texts nor positions.
 * - `progress`: all messages from `low` to `high` are in the index. `purge`: 1 after entries were removed, 2 while their
 *   terms are being removed from the file, otherwise 0.
 * - `growing`: indexed messages that were unfinished, with their last row in `pieces`.
 * - `deleted`: deleted messages, until a search removes their entries.
 *
 * SQLite reuses the greatest `n` after a delete. The trigger of `sessions` lowers `high` in the transaction of the
 * delete.
 */
const CREATE_SQL: readonly string[] = [
  `CREATE VIRTUAL TABLE IF NOT EXISTS ${INDEX} USING fts5
    (terms, tokenize = 'ascii', detail = none, content = '', contentless_delete = 1)`,
  `CREATE TABLE IF NOT EXISTS ${INDEX}_growing (message INTEGER PRIMARY KEY, piece INTEGER NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS ${INDEX}_deleted (n INTEGER PRIMARY KEY)`,
  `CREATE TRIGGER IF NOT EXISTS ${INDEX}_message AFTER DELETE ON messages BEGIN
    INSERT OR IGNORE INTO ${INDEX}_deleted VALUES (OLD.n);
  END`,
  `CREATE TRIGGER IF NOT EXISTS ${INDEX}_session AFTER DELETE ON sessions BEGIN
    UPDATE ${INDEX}_progress SET high = min(high, (SELECT coalesce(max(n), 0) FROM messages));
  END`,
  `CREATE TABLE IF NOT EXISTS ${INDEX}_progress (low INTEGER NOT NULL, high INTEGER NOT NULL, purge INTEGER NOT NULL)`,
  `INSERT INTO ${INDEX}_progress SELECT coalesce(max(n), 0) + 1, coalesce(max(n), 0), 0 FROM messages
    WHERE NOT EXISTS (SELECT 1 FROM ${INDEX}_progress)`,
];

/** Maximum number of messages per transaction, and of characters of their terms: about 5 ms. */
const MAX_BATCH_MESSAGES = 64;
const MAX_BATCH_CHARACTERS = 8000;
/** Number of removed entries per transaction. */
const MAX_REMOVED_ENTRIES = 100;
/** Number of pages per transaction that a purge writes, and the maximum time of a purge in one call. */
const PURGE_PAGES = 4;
const MAX_PURGE_MS = 200;

interface Progress {
  low: number;
  high: number;
  purge: number;
}

/** State of the index after an update. */
export interface IndexStatus {
  /** Whether the index has all messages from `low` on. */
  hasNewest: boolean;
  low: number;
  isComplete: boolean;
}

/** An entry of the index. `terms`: undefined for a message that is not searched. */
interface Entry {
  n: number;
  id: string;
  isFinished: boolean;
  lastPiece: number;
  terms: string | undefined;
}

/**
 * Index of the words of all messages. Writers do not maintain it: each search first adds the messages stored since the
 * last search. Several processes may update the index at once, because each transaction checks the progress.
 */
export class FtsIndex {
  readonly #db: Statements;
  readonly #writeQueue: WriteQueue;

  constructor(db: Statements, writeQueue: WriteQueue) {
    this.#db = db;
    this.#writeQueue = writeQueue;
  }

  /**
   * Adds messages in short transactions, the newest first, until `deadlineMs` (ms since the epoch). Makes at least one
   * step. Rejects with the signal's reason.
   */
  async update(deadlineMs: number, signal: AbortSignal | undefined): Promise<IndexStatus> {
    await this.#create();
    const runAll = async (step: () => Promise<boolean>): Promise<boolean> => {
      while (await step()) {
        await yieldToEventLoop();
        signal?.throwIfAborted();
        if (Date.now() >= deadlineMs) return false;
      }
      return true;
    };
    const hasNewest =
      (await runAll(() => this.#removeDeleted())) &&
      (await runAll(() => this.#addNewer())) &&
      (await runAll(() => this.#refreshGrowing()));
    const isComplete = hasNewest && (await runAll(() => this.#addOlder()));
    if (isComplete) await this.#purge(signal);
    return { hasNewest, isComplete, low: (await this.#readProgress()).low };
  }

  async #create(): Promise<void> {
    const sql = "SELECT 1 FROM sqlite_schema WHERE name = ?";
    if (await retryWhileBusy(() => this.#db.get(sql, `${INDEX}_progress`))) return;
    await this.#writeQueue.add({ needsSync: false }, () => {
      for (const statement of CREATE_SQL) this.#db.run(statement);
    });
  }

  #readProgress(): Promise<Progress> {
    return retryWhileBusy(() => this.#getProgress());
  }

  #getProgress(): Progress {
    const progress = this.#db.get<Progress>(`SELECT low, high, purge FROM ${INDEX}_progress`);
    return progress ?? { low: 0, high: 0, purge: 0 };
  }

  /** Removes entries of deleted messages. This and the other steps return whether there may be more to do. */
  async #removeDeleted(): Promise<boolean> {
    const sql = `SELECT n FROM ${INDEX}_deleted LIMIT ?`;
    const readDeleted = (): { n: number }[] => this.#db.all<{ n: number }>(sql, MAX_REMOVED_ENTRIES);
    if ((await retryWhileBusy(readDeleted)).length === 0) return false;
    await this.#writeQueue.add({ needsSync: false }, () => {
      for (const { n } of readDeleted())
        for (const [table, column] of [
          [INDEX, "rowid"],
          [`${INDEX}_growing`, "message"],
          [`${INDEX}_deleted`, "n"],
        ])
          this.#db.run(`DELETE FROM ${table} WHERE ${column} = ?`, n);
      this.#db.run(`UPDATE ${INDEX}_progress SET purge = 1`);
    });
    return true;
  }

  async #addNewer(): Promise<boolean> {
    const { high } = await this.#readProgress();
    const entries = await this.#readEntries("SELECT n FROM messages WHERE n > ? ORDER BY n LIMIT ?", high);
    const lastEntry = entries.at(-1);
    if (!lastEntry) return false;
    await this.#store(entries, (progress) => progress.high === high, `high = ${lastEntry.n}`);
    return true;
  }

  async #addOlder(): Promise<boolean> {
    const { low } = await this.#readProgress();
    if (low <= 1) return false;
    const entries = await this.#readEntries("SELECT n FROM messages WHERE n < ? ORDER BY n DESC LIMIT ?", low);
    await this.#store(entries, (progress) => progress.low === low, `low = ${entries.at(-1)?.n ?? 1}`);
    return true;
  }

  /** Indexes messages again that grew or were finished since. */
  async #refreshGrowing(): Promise<boolean> {
    // `CROSS JOIN` makes SQLite read the few growing messages first, not all messages.
    const sql = `SELECT m.n FROM ${INDEX}_growing g CROSS JOIN messages m ON m.n = g.message
      WHERE g.message > ? AND (m.finished = 1 OR
        g.piece <> (SELECT coalesce(max(p.n), 0) FROM pieces p WHERE p.message = m.n)) LIMIT ?`;
    const entries = await this.#readEntries(sql, 0);
    if (entries.length === 0) return false;
    await this.#store(entries, () => true, "high = high");
    return true;
  }

  /** Reads a batch of messages, by the `n` that the statement selects, and computes their terms. */
  async #readEntries(sql: string, position: number): Promise<Entry[]> {
    const db = this.#db;
    const rows = await retryWhileBusy(() => db.all<{ n: number }>(sql, position, MAX_BATCH_MESSAGES));
    const entries: Entry[] = [];
    let characters = 0;
    for (const { n } of rows) {
      const entry = await retryWhileBusy(() => db.readConsistently(() => readEntry(db, n)));
      // A deleted message; the next read omits it.
      if (!entry) break;
      entries.push(entry);
      characters += entry.terms?.length ?? 0;
      if (characters >= MAX_BATCH_CHARACTERS) break;
    }
    return entries;
  }

  /**
   * Stores entries and the new progress. Stores nothing if another process has changed the progress, or deleted one of
   * the messages: the next step reads again.
   */
  async #store(entries: readonly Entry[], isCurrent: (progress: Progress) => boolean, set: string): Promise<void> {
    const db = this.#db;
    const idSql = "SELECT id FROM messages WHERE n = ?";
    await this.#writeQueue.add({ needsSync: false }, () => {
      if (!isCurrent(this.#getProgress())) return;
      if (entries.some(({ n, id }) => db.get<{ id: string }>(idSql, n)?.id !== id)) return;
      // Such an entry belongs to an earlier message with the same `n`.
      if (db.get(`SELECT 1 FROM ${INDEX}_deleted`)) return;
      for (const { n, terms, isFinished, lastPiece } of entries) {
        if (terms === undefined) continue;
        db.run(`INSERT OR REPLACE INTO ${INDEX} (rowid, terms) VALUES (?, ?)`, n, terms);
        if (isFinished) db.run(`DELETE FROM ${INDEX}_growing WHERE message = ?`, n);
        else db.run(`INSERT OR REPLACE INTO ${INDEX}_growing VALUES (?, ?)`, n, lastPiece);
      }
      db.run(`UPDATE ${INDEX}_progress SET ${set}`);
    });
  }

  /** Removes the terms of removed entries from the file. Merges the index in short steps, over several searches. */
  async #purge(signal: AbortSignal | undefined): Promise<void> {
    const db = this.#db;
    const deadlineMs = Date.now() + MAX_PURGE_MS;
    const countChanges = (): number => db.get<{ n: number }>("SELECT total_changes() AS n")?.n ?? 0;
    while ((await this.#readProgress()).purge > 0 && Date.now() < deadlineMs && !signal?.aborted) {
      await this.#writeQueue.add({ needsSync: false }, () => {
        const { purge } = this.#getProgress();
        if (purge === 0) return;
        const changeCount = countChanges();
        // A negative number starts a merge of the complete index.
        db.run(`INSERT INTO ${INDEX} (${INDEX}, rank) VALUES ('merge', ?)`, purge === 1 ? -PURGE_PAGES : PURGE_PAGES);
        // The insert itself counts as one change.
        db.run(`UPDATE ${INDEX}_progress SET purge = ?`, countChanges() - changeCount < 2 ? 0 : 2);
      });
      await yieldToEventLoop();
    }
  }
}

/** Reads a message and computes its terms. Undefined if the message was deleted. */
function readEntry(db: Statements, n: number): Entry | undefined {
  const row = db.get<MessageRow & { spawner: string | null; piece: number }>(
    `SELECT m.*, o.spawner, (SELECT coalesce(max(p.n), 0) FROM pieces p WHERE p.message = m.n) AS piece
     FROM messages m LEFT JOIN sessions o ON o.n = m.chain WHERE m.n = ?`,
    n,
  );
  if (!row) return undefined;
  const terms = row.spawner === null ? toIndexTerms(readMessage(db, row, "")).join(" ") : undefined;
  return { n, id: row.id, isFinished: row.finished === 1, lastPiece: row.piece, terms };
}
