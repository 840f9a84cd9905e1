import { StoreError } from "gantry";
import { databaseFunctions } from "./functions.js";
import { MIGRATIONS, VERSION } from "./tables.js";
import type { Query } from "./connections.js";

/** SQL with `@.` for the schema and `@v` for the version of the functions, as one schema has it. */
export function sqlOf(schema: string): (sql: string) => string {
  const known = new Map<string, string>();
  return (sql) => {
    let text = known.get(sql);
    if (text === undefined) {
      text = sql.replaceAll("@.", `"${schema}".`).replaceAll("@v", databaseFunctions().suffix);
      known.set(sql, text);
    }
    return text;
  };
}

/** What there is of a schema. */
interface Found {
  /** Whether it is there itself. */
  schema: boolean;
  /** 0: no tables of ours. */
  version: number;
  functions: boolean;
}

/**
 * Bring the schema to `VERSION`, with the functions of this code. Any number of processes may do so at once: all that is
 * changed is changed in one transaction, under a lock. Where there is nothing to do nothing is written, and no right is needed
 * but to use what is there.
 */
export async function prepareSchema(query: Query, schema: string): Promise<void> {
  const sql = sqlOf(schema);
  const complete = ({ version, functions }: Found): boolean => version === VERSION && functions;
  if (complete(await look(query, schema))) return;
  await checkEncoding(query, schema);
  await query("BEGIN", []);
  try {
    await query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`gantry ${schema}`]);
    const found = await look(query, schema);
    if (!complete(found)) await query(steps(found, schema).map(sql).join(";\n"), []);
    await query("COMMIT", []);
  } catch (error) {
    // The connection may be gone, and with it the transaction.
    await query("ROLLBACK", []).catch(() => undefined);
    throw missingRight(error, schema) ?? error;
  }
}

/** A database of another encoding refuses whatever that has no character for, in the middle of a run. */
async function checkEncoding(query: Query, schema: string): Promise<void> {
  const [{ encoding } = { encoding: "" }] = await query<{ encoding: string }>(
    "SELECT pg_catalog.current_setting('server_encoding') AS encoding",
    [],
  );
  if (encoding === "UTF8" || encoding === "SQL_ASCII") return;
  throw new StoreError(
    `session store in schema ${schema}: the database is of encoding ${encoding}, which does not hold every text; ` +
      "name one of encoding UTF8 in session.url (CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0)",
  );
}

function steps({ schema: made, version, functions }: Found, schema: string): string[] {
  return [
    // Not IF NOT EXISTS, for which a right on the database is asked even where there is nothing to do.
    ...(made ? [] : [`CREATE SCHEMA "${schema}"`]),
    ...(version > 0 ? [] : ["CREATE TABLE @.version (version integer NOT NULL)"]),
    ...(version > 0 ? [] : ["INSERT INTO @.version VALUES (0)"]),
    ...MIGRATIONS.slice(version),
    `UPDATE @.version SET version = ${VERSION}`,
    ...(functions ? [] : [databaseFunctions().sql]),
  ];
}

async function look(query: Query, schema: string): Promise<Found> {
  // By the tables themselves: names that were looked up in vain are remembered within a transaction.
  const [there] = await query<{ version: boolean; functions: boolean }>(
    `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relnamespace = s.oid AND c.relname = 'version') AS version,
       EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.pronamespace = s.oid AND p.proname = $2) AS functions
     FROM pg_catalog.pg_namespace s WHERE s.nspname = $1`,
    [schema, `dump${databaseFunctions().suffix}`],
  );
  if (!there?.version) return { schema: there !== undefined, version: 0, functions: false };
  const [row] = await query<{ version: number }>(sqlOf(schema)("SELECT version FROM @.version"), []);
  const version = row?.version ?? 0;
  if (version > VERSION)
    throw new StoreError(
      `session store in schema ${schema}: written by a newer gantry (version ${version}, this one knows ${VERSION}); ` +
        "it was left as it is: update gantry, or choose another session.schema",
    );
  return { schema: true, version, functions: there.functions };
}

/** Whoever may not make what is missing is told who can. */
function missingRight(error: unknown, schema: string): StoreError | undefined {
  if ((error as { code?: unknown }).code !== "42501") return undefined;
  return new StoreError(
    `session store in schema ${schema}: tables or functions of this version are missing, and the role of session.url may ` +
      "not make them; start gantry once with a role that may (it needs CREATE on the schema, or on the database where " +
      "there is no such schema), and grant this one USAGE on the schema, EXECUTE on its functions " +
      "and SELECT, INSERT, UPDATE, DELETE on its tables",
    { cause: error },
  );
}
