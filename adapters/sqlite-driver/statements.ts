import type { Database, Statement, Transaction } from "better-sqlite3";
import { prepare } from "./retained-objects.js";
import { wellFormed } from "./rows.js";

export type Value = string | number | null;

/** Prepared statements by their text, each prepared once. */
export class Statements {
  readonly #db: Database;
  readonly #prepared = new Map<string, Statement>();
  readonly #inserts = new Map<string, string>();
  readonly #together: Transaction<(reads: () => unknown) => unknown>;

  constructor(db: Database) {
    this.#db = db;
    this.#together = db.transaction((reads: () => unknown) => reads());
  }

  run(sql: string, ...values: readonly Value[]): { changes: number; lastInsertRowid: number } {
    const { changes, lastInsertRowid } = this.#of(sql).run(...values.map(bindable));
    return { changes, lastInsertRowid: Number(lastInsertRowid) };
  }

  /** Add a row, whose keys are the columns: for one table always the same ones, so that the text is put together once. */
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

  /** Change the row that has `key` in its first column; the keys of `row` are the columns. */
  update(table: string, column: "n" | "id", key: Value, row: object): void {
    const columns = Object.keys(row).map((one) => `${one} = ?`);
    this.run(`UPDATE ${table} SET ${columns.join(", ")} WHERE ${column} = ?`, ...valuesOf(row), key);
  }

  /** The first row, of a shape that the caller knows from its own SQL. */
  get<Row>(sql: string, ...values: readonly Value[]): Row | undefined {
    return this.#of(sql).get(...values.map(bindable)) as Row | undefined;
  }

  all<Row>(sql: string, ...values: readonly Value[]): Row[] {
    return this.#of(sql).all(...values.map(bindable)) as Row[];
  }

  /** Run reads against one state of the store; inside of others, against theirs. */
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

function valuesOf(row: object): Value[] {
  return Object.values(row) as Value[];
}

function bindable(value: Value): Value {
  return typeof value === "string" ? wellFormed(value) : value;
}
