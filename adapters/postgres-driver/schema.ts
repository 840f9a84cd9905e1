import { StoreError } from "gantry";
import { getDatabaseFunctions } from "./functions.js";
import { MIGRATIONS, SCHEMA_VERSION } from "./tables.js";
import type { Query } from "./connections.js";

/**
 * Returns a function that replaces the placeholders in SQL: `@.` by the schema, `@v` by the suffix of the functions.
 */
export function createSqlResolver(schema: string): (sql: string) => string {
  const sqlByTemplate = new Map<string, string>();
  return (sql) => {
    let text = sqlByTemplate.get(sql);
    if (text === undefined) {
      text = sql.replaceAll("@.", `"${schema}".`).replaceAll("@v", getDatabaseFunctions().suffix);
      sqlByTemplate.set(sql, text);
    }
    return text;
  };
}

interface SchemaStatus {
  hasSchema: boolean;
  /** Version of the tables; 0 without tables. */
  version: number;
  hasFunctions: boolean;
}

/**
 * Migrates the schema to `SCHEMA_VERSION` and installs the functions of this code. Any number of processes may call
 * this function at once: all changes are in one transaction, under a lock. If the schema is complete, nothing is
 * written, and the role needs no other privilege than to use the schema.
 */
export async function prepareSchema(query: Query, schema: string): Promise<void> {
  const sql = createSqlResolver(schema);
  const isComplete = ({ version, hasFunctions }: SchemaStatus): boolean => version === SCHEMA_VERSION && hasFunctions;
  if (isComplete(await readStatus(query, schema))) return;
  await checkEncoding(query, schema);
  await query("BEGIN", []);
  try {
    await query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`gantry ${schema}`]);
    const status = await readStatus(query, schema);
    if (!isComplete(status)) await query(buildStatements(status, schema).map(sql).join(";\n"), []);
    await query("COMMIT", []);
  } catch (error) {
    // The connection may be lost, and the transaction with it.
    await query("ROLLBACK", []).catch(() => undefined);
    throw toPrivilegeError(error, schema) ?? error;
  }
}

/** Rejects a database that cannot store every character: a write would fail in the middle of a run. */
async function checkEncoding(query: Query, schema: string): Promise<void> {
  const [{ encoding } = { encoding: "" }] = await query<{ encoding: string }>(
    "SELECT pg_catalog.current_setting('server_encoding') AS encoding",
    [],
  );
  if (encoding === "UTF8" || encoding === "SQL_ASCII") return;
  throw new StoreError(
    `session store in schema ${schema}: the database encoding ${encoding} cannot store every text; ` +
      "name a database with encoding UTF8 in session.url (CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0)",
  );
}

function buildStatements({ hasSchema, version, hasFunctions }: SchemaStatus, schema: string): string[] {
  return [
    // Not `IF NOT EXISTS`, which requires a privilege on the database even if the schema exists.
    ...(hasSchema ? [] : [`CREATE SCHEMA "${schema}"`]),
    ...(version > 0 ? [] : ["CREATE TABLE @.version (version integer NOT NULL)"]),
    ...(version > 0 ? [] : ["INSERT INTO @.version VALUES (0)"]),
    ...MIGRATIONS.slice(version),
    `UPDATE @.version SET version = ${SCHEMA_VERSION}`,
    ...(hasFunctions ? [] : [getDatabaseFunctions().sql]),
  ];
}

/** Rejects with `StoreError` for a schema of a newer version. */
export async function readStatus(query: Query, schema: string): Promise<SchemaStatus> {
  // Reads the system tables directly: PostgreSQL caches failed name look-ups within a transaction.
  const [schemaRow] = await query<{ version: boolean; functions: boolean }>(
    `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relnamespace = s.oid AND c.relname = 'version') AS version,
       EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.pronamespace = s.oid AND p.proname = $2) AS functions
     FROM pg_catalog.pg_namespace s WHERE s.nspname = $1`,
    [schema, `dump${getDatabaseFunctions().suffix}`],
  );
  if (!schemaRow?.version) return { hasSchema: schemaRow !== undefined, version: 0, hasFunctions: false };
  const [row] = await query<{ version: number }>(createSqlResolver(schema)("SELECT version FROM @.version"), []);
  const version = row?.version ?? 0;
  if (version > SCHEMA_VERSION)
    throw new StoreError(
      `session store in schema ${schema}: written by a newer gantry (version ${version}, this one supports ${SCHEMA_VERSION}); ` +
        "it was not modified: update gantry, or choose another session.schema",
    );
  return { hasSchema: true, version, hasFunctions: schemaRow.functions };
}

/** Converts the error of a role without the required privileges; undefined for other errors. */
function toPrivilegeError(error: unknown, schema: string): StoreError | undefined {
  if ((error as { code?: unknown }).code !== "42501") return undefined;
  return new StoreError(
    `session store in schema ${schema}: tables or functions of this version are missing, and the role of session.url may ` +
      "not make them; start gantry once with a role that may (it needs CREATE on the schema, or on the database where " +
      "there is no such schema), and grant this one USAGE on the schema, EXECUTE on its functions " +
      "and SELECT, INSERT, UPDATE, DELETE on its tables",
    { cause: error },
  );
}
