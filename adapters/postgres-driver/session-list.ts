import type { SessionPage, SessionQuery } from "gantry/plugin";
import type { ParameterValue } from "./connections.js";
import { hashText, listReaders } from "./readers.js";
import { toSqlLimit } from "./reads.js";
import { toSession } from "./rows.js";
import type { SchemaStore } from "./store.js";
import { READER_LIST_CONDITION } from "./tables.js";
import { encodeText } from "./text-encoding.js";

/**
 * Reads a page and its total in one statement. Each row contains the total; an empty page has one row without a body.
 */
export async function listSessions(store: SchemaStore, query: SessionQuery): Promise<SessionPage> {
  const { sql, values } = buildListStatement(query);
  const rows = await store.read<{ body: string | null; total: string }>(sql, values);
  const bodies = rows.flatMap(({ body }) => (body === null ? [] : [body]));
  return { sessions: bodies.map(toSession), total: Number(rows[0]?.total ?? 0) };
}

/** Builds the statement of `listSessions` and its values. */
export function buildListStatement(query: SessionQuery): { sql: string; values: ParameterValue[] } {
  const {
    projectDir,
    spawnedBy,
    search = "",
    emptyBefore,
    archived = "include",
    visibleTo,
    before,
    offset = 0,
  } = query;
  const isFolderPage = projectDir !== undefined && [spawnedBy, visibleTo].every(isUndefined) && archived === "include";
  if (isFolderPage && search === "" && emptyBefore === undefined && before === undefined && offset === 0)
    return { sql: "SELECT * FROM @.of_dir@v($1, $2)", values: [encodeText(projectDir), toSqlLimit(query.limit)] };
  const values: ParameterValue[] = [];
  const addValue = (parameter: ParameterValue): string => `$${values.push(parameter)}`;
  const hasReader = visibleTo !== undefined && spawnedBy === undefined;
  const conditions = hasReader ? [READER_LIST_CONDITION] : ["s.idx = 0"];
  let scope = "''";
  if (spawnedBy === undefined) {
    if (!hasReader) conditions.push("s.spawner IS NULL");
  } else {
    const spawner = addValue(encodeText(spawnedBy));
    // The same expression as in the index.
    conditions.push(`left(s.spawner, 200) = left(${spawner}, 200)`, `s.spawner = ${spawner}`);
  }
  if (query.projectDir !== undefined) {
    const dir = addValue(encodeText(query.projectDir));
    scope = `@.scope@v(${dir})`;
    // The same expression as in the index. PostgreSQL would count a second equality twice when it estimates the rows.
    conditions.push(
      `left(s.project_dir, 200) = left(${dir}, 200)`,
      `CASE WHEN s.project_dir = ${dir} THEN true ELSE false END`,
    );
  }
  if (query.emptyBefore !== undefined)
    conditions.push("s.empty", `s.updated_at < ${addValue(encodeText(query.emptyBefore))}`);
  if (query.search) conditions.push(`strpos(s.search, ${addValue(encodeText(query.search.toLowerCase()))}) > 0`);
  const sources = listSources(query, addValue);
  const needsCount =
    search !== "" || ![emptyBefore, spawnedBy].every(isUndefined) || (archived === "only" && !hasReader);
  const buildCountSql = (condition: string): string => buildCount(sources, [...conditions, condition]);
  // The stored totals of all users include archived sessions.
  const archivedSql = archived === "exclude" && !hasReader ? ` - (${buildCountSql("s.archived")})` : "";
  if (archived !== "include" && !hasReader) conditions.push(toArchivedCondition(archived === "only"));
  const totalSql = needsCount
    ? buildCountSql("true")
    : `SELECT coalesce(sum(t.n), 0)${archivedSql} AS total FROM @.totals t
       WHERE t.scope = ${hasReader ? `ANY (${addValue(listReaderScopes(visibleTo, query))})` : scope}`;
  if (query.before)
    conditions.push(
      `(s.updated_at, s.id) < (${addValue(encodeText(query.before.updatedAt))}, ${addValue(encodeText(query.before.id))})`,
    );
  const limitParameter = addValue(toSqlLimit(query.limit));
  const offsetParameter = addValue(toSqlLimit(offset));
  const pageSql = buildPage(sources, conditions, limitParameter, offsetParameter);
  const sql = `SELECT t.total, row_to_json(p)::text AS body FROM (${totalSql}) t LEFT JOIN (${pageSql}) p ON true
    ORDER BY p.updated_at DESC, p.id DESC`;
  return { sql, values };
}

function buildCount(sources: readonly string[][], conditions: readonly string[]): string {
  const counts = sources.map(
    (source) => `(SELECT count(*) FROM @.sessions s WHERE ${[...source, ...conditions].join(" AND ")})`,
  );
  return `SELECT ${counts.join(" + ")} AS total`;
}

/** Builds the statement of a page. Each source returns the rows of the page and of the skipped ones before it. */
function buildPage(sources: readonly string[][], conditions: readonly string[], limit: string, offset: string): string {
  const orderSql = "ORDER BY s.updated_at DESC, s.id DESC";
  const pages = sources.map(
    (source) =>
      `(SELECT s.* FROM @.sessions s WHERE ${[...source, ...conditions].join(" AND ")} ${orderSql}
        LIMIT ${limit}::bigint + ${offset}::bigint)`,
  );
  return `SELECT * FROM (${pages.join(" UNION ALL ")}) s ${orderSql} LIMIT ${limit} OFFSET ${offset}`;
}

/**
 * Lists the conditions of the sources of a list. The sessions of a user and the shared sessions, and of both the archived
 * ones, are separate sources, so that each is read in the order of an index.
 */
function listSources(
  { visibleTo, spawnedBy, archived }: SessionQuery,
  addValue: (parameter: ParameterValue) => string,
): string[][] {
  if (visibleTo === undefined) return [[]];
  const readers = listReaders(visibleTo).map(addValue);
  if (spawnedBy !== undefined) return [[`s.reader IN (${readers.join(", ")})`]];
  return readers.flatMap((reader) =>
    listArchivedValues(archived).map((value) => [`s.reader = ${reader}`, toArchivedCondition(value)]),
  );
}

/** Lists the values of `archived` that a list contains. */
function listArchivedValues(archived: SessionQuery["archived"]): boolean[] {
  return [false, true].filter((value) => archived !== (value ? "exclude" : "only"));
}

const toArchivedCondition = (value: boolean): string => (value ? "s.archived" : "NOT s.archived");

/** Lists the scopes of the totals that count the sessions of a user's list. The trigger `count_readers` keeps these totals. */
function listReaderScopes(visibleTo: string, { projectDir, archived }: SessionQuery): string[] {
  const dirHash = projectDir === undefined ? "" : hashText(encodeText(projectDir));
  return listReaders(visibleTo).flatMap((reader) =>
    listArchivedValues(archived).map((value) => `reader:${Number(value)}:${dirHash}:${reader}`),
  );
}

function isUndefined(value: unknown): boolean {
  return value === undefined;
}
