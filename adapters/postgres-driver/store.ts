import type { Connections, Value } from "./connections.js";
import { sqlOf } from "./schema.js";

/** Statements of one schema: `@.` stands for it, and `@v` for the version of the functions. */
export class Store {
  readonly #connections: Connections;
  readonly #sql: (sql: string) => string;

  constructor(connections: Connections, schema: string) {
    this.#connections = connections;
    this.#sql = sqlOf(schema);
  }

  /** A statement that may be sent twice. */
  read<Row extends object>(sql: string, values: readonly Value[]): Promise<Row[]> {
    return this.#connections.query<Row>(this.#sql(sql), values, "read");
  }

  /** A change that knows by its token, or by what it compares, that it was made before. */
  change<Row extends object>(sql: string, values: readonly Value[]): Promise<Row[]> {
    return this.#connections.query<Row>(this.#sql(sql), values, "once");
  }
}
