import { CallBatcher } from "./call-batcher.js";
import type { BatchedCall } from "./call-batcher.js";
import type { Connections, ParameterValue } from "./connections.js";
import type { ReadRow } from "./rows.js";
import { createSqlResolver } from "./schema.js";

/** Runs statements in one schema. `createSqlResolver` describes the placeholders in the SQL. */
export class SchemaStore {
  readonly #connections: Connections;
  readonly #resolveSql: (sql: string) => string;
  readonly #batcher: CallBatcher;

  constructor(connections: Connections, schema: string) {
    this.#connections = connections;
    this.#resolveSql = createSqlResolver(schema);
    this.#batcher = new CallBatcher(connections, this.#resolveSql("SELECT * FROM @.calls@v($1)"));
  }

  /** Runs a call that may share a statement with other calls. */
  call(call: BatchedCall): Promise<ReadRow[]> {
    return this.#batcher.add(call);
  }

  /** Runs a statement without changes, which is sent again after the loss of a connection. */
  read<Row extends object>(sql: string, values: readonly ParameterValue[], timeoutSeconds?: number): Promise<Row[]> {
    return this.#connections.query<Row>(this.#resolveSql(sql), values, "read", { timeoutSeconds });
  }

  /** Runs a change that detects an earlier execution by a token, or has the same effect when it is repeated. */
  change<Row extends object>(sql: string, values: readonly ParameterValue[], timeoutSeconds?: number): Promise<Row[]> {
    return this.#connections.query<Row>(this.#resolveSql(sql), values, "once", { timeoutSeconds });
  }
}
