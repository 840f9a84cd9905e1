import type { Database, Statement, Transaction } from "better-sqlite3";
import type { MeasuredClock } from "gantry/plugin";
import { prepare } from "./retained-objects.js";
import { toWellFormed } from "./rows.js";

export type SqlValue = string | number | null;

/** Runs statements. Prepares each SQL text once. */
export class Statements {
  readonly #db: Database;
  readonly #statementsBySql = new Map<string, Statement>();
  readonly #insertSqlByTable = new Map<string, string>();
  readonly #clock: MeasuredClock;
  readonly #readTransaction: Transaction<(reads: () => unknown) => unknown>;

  constructor(db: Database, clock: MeasuredClock) {
    this.#db = db;
    this.#clock = clock;
    this.#readTransaction = db.transaction((reads: () => unknown) => reads());
  }

  /**
   * As `SessionDriver.clockOffsetMs`. The store's clock is that of SQLite: a write-ahead log requires that all processes
   * run on one system.
   */
  get clockOffsetMs(): number {
    if (this.#clock.isOutdated) {
      const startedAtMs = Date.now();
      const row = this.get<{ now: number }>("SELECT unixepoch('subsec') * 1000 AS now");
      if (row) this.#clock.update(row.now, startedAtMs);
    }
    return this.#clock.offsetMs;
  }

  run(sql: string, ...values: readonly SqlValue[]): { changes: number; lastInsertRowid: number } {
    const { changes, lastInsertRowid } = this.#prepare(sql).run(...values.map(toBindable));
    return { changes, lastInsertRowid: Number(lastInsertRowid) };
  }

  /**
   * Inserts a row. The keys of `row` are the columns. All calls for a table must have the same keys and the same
   * `conflictClause`, because the statement is built once per table.
   */
  insert(table: string, row: object, conflictClause = ""): { changes: number; lastInsertRowid: number } {
    let sql = this.#insertSqlByTable.get(table);
    if (sql === undefined) {
      const columns = Object.keys(row);
      const placeholders = columns.map(() => "?").join(", ");
      sql = `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${placeholders}) ${conflictClause}`;
      this.#insertSqlByTable.set(table, sql);
    }
    return this.run(sql, ...toValues(row));
  }

  /** Updates the row with the value `key` in `column`. The keys of `row` are the columns to set. */
  update(table: string, column: "n" | "id", key: SqlValue, row: object): void {
    const assignments = Object.keys(row).map((column) => `${column} = ?`);
    this.run(`UPDATE ${table} SET ${assignments.join(", ")} WHERE ${column} = ?`, ...toValues(row), key);
  }

  /** Returns the first row; undefined without a row. `Row` must match the columns of the SQL. */
  get<Row>(sql: string, ...values: readonly SqlValue[]): Row | undefined {
    return this.#prepare(sql).get(...values.map(toBindable)) as Row | undefined;
  }

  all<Row>(sql: string, ...values: readonly SqlValue[]): Row[] {
    return this.#prepare(sql).all(...values.map(toBindable)) as Row[];
  }

  /** Runs several reads in one transaction, so that all reads see the same state. Joins an open transaction. */
  readConsistently<T>(reads: () => T): T {
    return this.#db.inTransaction ? reads() : (this.#readTransaction.deferred(reads) as T);
  }

  #prepare(sql: string): Statement {
    let statement = this.#statementsBySql.get(sql);
    if (!statement) {
      statement = prepare(this.#db, sql);
      this.#statementsBySql.set(sql, statement);
    }
    return statement;
  }
}

function toValues(row: object): SqlValue[] {
  return Object.values(row) as SqlValue[];
}

function toBindable(value: SqlValue): SqlValue {
  return typeof value === "string" ? toWellFormed(value) : value;
}
