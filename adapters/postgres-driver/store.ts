import { CallBatcher } from "./call-batcher.js";
import type { BatchedCall } from "./call-batcher.js";
import type { Connections, ParameterValue } from "./connections.js";
import type { ReadRow } from "./rows.js";
import { sqlOf } from "./schema.js";

/** Runs statements in one schema: `@.` stands for the schema, and `@v` for the version suffix of the functions. */
export class SchemaStore {
  readonly #connections: Connections;
  readonly #sql: (sql: string) => string;
  readonly #calls: CallBatcher;

  constructor(connections: Connections, schema: string) {
    this.#connections = connections;
    this.#sql = sqlOf(schema);
    this.#calls = new CallBatcher(connections, this.#sql("SELECT * FROM @.calls@v($1)"));
  }

  /** Runs a call that may share a statement with others. */
  call(call: BatchedCall): Promise<ReadRow[]> {
    return this.#calls.add(call);
  }

  /** Runs a statement that may be sent twice. */
  read<Row extends object>(sql: string, values: readonly ParameterValue[], seconds?: number): Promise<Row[]> {
    return this.#connections.query<Row>(this.#sql(sql), values, "read", { seconds });
  }

  /** Runs a change that detects an earlier execution by its token, or by the values that it compares. */
  change<Row extends object>(sql: string, values: readonly ParameterValue[], seconds?: number): Promise<Row[]> {
    return this.#connections.query<Row>(this.#sql(sql), values, "once", { seconds });
  }
}
