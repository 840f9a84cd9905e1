import { Client } from "pg";
import type { HeldStore } from "gantry/testing";

/** Address and schema of a store. */
export interface StoreAddress {
  url: string;
  schema: string;
}

/** Counts the backends that wait for this backend, directly or through other backends. */
const COUNT_WAITING_SQL = `
  WITH RECURSIVE stuck AS MATERIALIZED (
    SELECT pid, pg_blocking_pids(pid) AS by FROM pg_stat_activity WHERE wait_event_type = 'Lock'
  ), waiting AS (
    SELECT pid FROM stuck WHERE pg_backend_pid() = ANY (by)
    UNION SELECT s.pid FROM stuck s JOIN waiting w ON w.pid = ANY (s.by)
  ) SELECT count(*)::int AS n FROM waiting`;

/**
 * Blocks the next change of a schema before its commit: a deferred trigger waits for an advisory lock that this class
 * holds. Other changes pass. If `part` is above 0, the trigger first locks the table with that number, so that readers
 * of the table wait too.
 */
export class CommitBlocker {
  readonly #address: StoreAddress;
  #client: Promise<Client> | undefined;
  #tables: string[] = [];
  #part = 0;

  constructor(address: StoreAddress) {
    this.#address = address;
  }

  /**
   * Blocks the next change, as `SessionDriverFixture.hold` requires. Undefined if there is no table with this number.
   */
  async hold(part: number): Promise<HeldStore | undefined> {
    const client = await (this.#client ??= this.#connect());
    if (part > this.#tables.length) return undefined;
    if (part !== this.#part) await client.query(this.#createTriggerSql(part));
    this.#part = part;
    await client.query("SELECT pg_advisory_lock(hashtext($1), 0)", [this.#address.schema]);
    return {
      waiting: async () => (await client.query<{ n: number }>(COUNT_WAITING_SQL)).rows[0]?.n ?? 0,
      resume: async () => void (await client.query("SELECT pg_advisory_unlock_all()")),
    };
  }

  /** Deletes all rows of the store. */
  async empty(): Promise<void> {
    const client = await (this.#client ??= this.#connect());
    await client.query(this.#tables.map((table) => `DELETE FROM ${this.#address.schema}.${table}`).join(";\n"));
  }

  async close(): Promise<void> {
    await (await this.#client)?.end();
  }

  async #connect(): Promise<Client> {
    const { url, schema } = this.#address;
    const client = new Client({ connectionString: url });
    await client.connect();
    // Sessions are deleted before the rows that the trigger of their totals uses.
    const { rows } = await client.query<{ name: string }>(
      `SELECT tablename AS name FROM pg_tables WHERE schemaname = $1 AND tablename <> 'version'
       ORDER BY tablename = 'totals', tablename DESC`,
      [schema],
    );
    this.#tables = rows.map(({ name }) => name);
    const triggers = this.#tables.map(
      (table) => `CREATE CONSTRAINT TRIGGER stop AFTER INSERT OR UPDATE OR DELETE ON ${schema}.${table}
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION ${schema}.stop()`,
    );
    await client.query([this.#createTriggerSql(0), ...triggers].join(";\n"));
    return client;
  }

  #createTriggerSql(part: number): string {
    const { schema } = this.#address;
    const table = this.#tables[part - 1];
    return `CREATE OR REPLACE FUNCTION ${schema}.stop() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF pg_try_advisory_xact_lock_shared(hashtext('${schema}'), 0) THEN RETURN NULL; END IF;
        IF NOT pg_try_advisory_xact_lock(hashtext('${schema}'), 1) THEN RETURN NULL; END IF;
        ${table ? `LOCK TABLE ${schema}.${table} IN ACCESS EXCLUSIVE MODE;` : ""}
        PERFORM pg_advisory_xact_lock_shared(hashtext('${schema}'), 0);
        RETURN NULL;
      END $$`;
  }
}
