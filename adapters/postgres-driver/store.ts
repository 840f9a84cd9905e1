import { CallBatcher } from "./call-batcher.js";
import type { Call } from "./call-batcher.js";
import type { Connections, Value } from "./connections.js";
import type { Part } from "./rows.js";
import { sqlOf } from "./schema.js";

/** Statements of one schema: `@.` stands for it, and `@v` for the version of the functions. */
export class Store {
  readonly #connections: Connections;
  readonly #sql: (sql: string) => string;
  readonly #calls: CallBatcher;

  constructor(connections: Connections, schema: string) {
    this.#connections = connections;
    this.#sql = sqlOf(schema);
    this.#calls = new CallBatcher(connections, this.#sql("SELECT * FROM @.calls@v($1)"));
  }

  /** One that may go together with others. */
  call(call: Call): Promise<Part[]> {
    return this.#calls.add(call);
  }

  /** A statement that may be sent twice. */
  read<Row extends object>(sql: string, values: readonly Value[], seconds?: number): Promise<Row[]> {
    return this.#connections.query<Row>(this.#sql(sql), values, "read", { seconds });
  }

  /** A change that knows by its token, or by what it compares, that it was made before. */
  change<Row extends object>(sql: string, values: readonly Value[], seconds?: number): Promise<Row[]> {
    return this.#connections.query<Row>(this.#sql(sql), values, "once", { seconds });
  }
}
