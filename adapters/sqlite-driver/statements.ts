import type { Database, Statement, Transaction } from "better-sqlite3";
import { prepare } from "./retained-objects.js";
import { wellFormed } from "./rows.js";

export type SqlValue = string | number | null;

/** Prepared statements by their text; each is prepared once. */
export class Statements {
  readonly #db: Database;
  readonly #prepared = new Map<string, Statement>();
  readonly #inserts = new Map<string, string>();
  readonly #together: Transaction<(reads: () => unknown) => unknown>;

  constructor(db: Database) {
    this.#db = db;
    this.#together = db.transaction((reads: () => unknown) => reads());
  }

  run(sql: string, ...values: readonly SqlValue[]): { changes: number; lastInsertRowid: number } {
    const { changes, lastInsertRowid } = this.#of(sql).run(...values.map(bindable));
    return { changes, lastInsertRowid: Number(lastInsertRowid) };
  }

  /**
   * Inserts a row; its keys are the columns. All rows of a table must have the same keys, because the statement is
   * built once.
   */
  insert(table: string, row: object, otherwise = ""): { changes: number; lastInsertRowid: number } {
    let sql = this.#inserts.get(table);
    if (sql === undefined) {
      const columns = Object.keys(row);
      const places = columns.map(() => "?").join(", ");
      sql = `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${places}) ${otherwise}`;
      this.#inserts.set(table, sql);
    }
    return this.run(sql, ...valuesOf(row));
  }

  /** Updates the row with the value `key` in `column`. The keys of `row` are the columns to set. */
  update(table: string, column: "n" | "id", key: SqlValue, row: object): void {
    const columns = Object.keys(row).map((column) => `${column} = ?`);
    this.run(`UPDATE ${table} SET ${columns.join(", ")} WHERE ${column} = ?`, ...valuesOf(row), key);
  }

  /** The first row. The caller knows its shape from the SQL. */
  get<Row>(sql: string, ...values: readonly SqlValue[]): Row | undefined {
    return this.#of(sql).get(...values.map(bindable)) as Row | undefined;
  }

  all<Row>(sql: string, ...values: readonly SqlValue[]): Row[] {
    return this.#of(sql).all(...values.map(bindable)) as Row[];
  }

  /** Runs reads against one state of the store. Inside another transaction, uses the state of that one. */
  atOnce<T>(reads: () => T): T {
    return this.#db.inTransaction ? reads() : (this.#together.deferred(reads) as T);
  }

  #of(sql: string): Statement {
    let statement = this.#prepared.get(sql);
    if (!statement) {
      statement = prepare(this.#db, sql);
      this.#prepared.set(sql, statement);
    }
    return statement;
  }
}

function valuesOf(row: object): SqlValue[] {
  return Object.values(row) as SqlValue[];
}

function bindable(value: SqlValue): SqlValue {
  return typeof value === "string" ? wellFormed(value) : value;
}
