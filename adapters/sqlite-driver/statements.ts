import type { Database, Statement } from "better-sqlite3";
import { prepare } from "./kept.js";
import { wellFormed } from "./rows.js";

export type Value = string | number | null;

/** Prepared statements by their text, each prepared once. */
export class Statements {
  readonly #db: Database;
  readonly #prepared = new Map<string, Statement>();
  readonly #inserts = new Map<string, string>();

  constructor(db: Database) {
    this.#db = db;
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

  /** Change a row; its keys are the columns. */
  update(table: string, n: number, row: object): void {
    const columns = Object.keys(row).map((column) => `${column} = ?`);
    this.run(`UPDATE ${table} SET ${columns.join(", ")} WHERE n = ?`, ...valuesOf(row), n);
  }

  /** The first row, of a shape that the caller knows from its own SQL. */
  get<Row>(sql: string, ...values: readonly Value[]): Row | undefined {
    return this.#of(sql).get(...values.map(bindable)) as Row | undefined;
  }

  all<Row>(sql: string, ...values: readonly Value[]): Row[] {
    return this.#of(sql).all(...values.map(bindable)) as Row[];
  }

  /** Run reads against one state of the store. */
  atOnce<T>(reads: () => T): T {
    return this.#db.transaction(reads).deferred();
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
