import type { SessionPage, SessionQuery } from "gantry/plugin";
import { toSqlLimit } from "./reads.js";
import { toSession, type SessionRow } from "./rows.js";
import type { SqlValue, Statements } from "./statements.js";

/** Name of the SQL function that lower-cases like JavaScript. */
export const LOWER_CASE_FUNCTION = "gantry_lower";

/** Builds the statement of a page of sessions and the statement of the total count, with their values. */
export function buildListStatement(query: SessionQuery): {
  pageSql: string;
  countSql: string;
  pageValues: SqlValue[];
  countValues: SqlValue[];
} {
  const conditions: string[] = [];
  const values: SqlValue[] = query.visibleTo === undefined ? [] : [query.visibleTo];
  if (query.spawnedBy === undefined) conditions.push("spawner IS NULL");
  else {
    conditions.push("spawner = ?");
    values.push(query.spawnedBy);
  }
  if (query.projectDir !== undefined) {
    conditions.push("project_dir = ?");
    values.push(query.projectDir);
  }
  // Literals, so that the query can use the index of archived sessions.
  if (query.archived === "only") conditions.push("archived = 1");
  else if (query.archived === "exclude") conditions.push("archived = 0");
  if (query.emptyBefore !== undefined) {
    conditions.push("last_seq = 0", "updated_at < ?");
    values.push(query.emptyBefore);
  }
  if (query.search) {
    // SQLite's own `lower` handles only ASCII and is faster for titles without other characters.
    conditions.push(
      `instr(CASE WHEN length(title) = length(CAST(title AS BLOB)) THEN lower(title) ELSE ${LOWER_CASE_FUNCTION}(title) END, ?) > 0`,
    );
    values.push(query.search.toLowerCase());
  }
  const sources = listSources(query);
  const buildSelects = (columns: string): string[] =>
    sources.map((source) => `SELECT ${columns} FROM sessions ${[source, ...conditions].join(" AND ")}`);
  const countSql = `SELECT (${buildSelects("count(*)").join(") + (")}) AS n`;
  const countValues = sources.flatMap(() => values);
  if (query.before) {
    conditions.push("(updated_at, id) < (?, ?)");
    values.push(query.before.updatedAt, query.before.id);
  }
  const pageSql = `${buildSelects("*").join(" UNION ALL ")} ORDER BY updated_at DESC, id DESC LIMIT ? OFFSET ?`;
  const pageValues = [...sources.flatMap(() => values), toSqlLimit(query.limit), query.offset ?? 0];
  return { pageSql, countSql, pageValues, countValues };
}

/**
 * Builds the starts of the `WHERE` clauses of a list, each with the user as its only value, or without a value. The
 * sessions of a user and the shared sessions are two sources, so that SQLite merges two indexes instead of sorting.
 */
function listSources({ visibleTo, spawnedBy }: SessionQuery): string[] {
  if (visibleTo === undefined) return ["WHERE idx = 0"];
  if (spawnedBy !== undefined) return ["WHERE (owner = ? OR shared = 1) AND idx = 0"];
  return [
    "INDEXED BY sessions_of_owner WHERE owner = ? AND owner <> '' AND idx = 0",
    "INDEXED BY sessions_shared WHERE owner <> ? AND shared = 1 AND idx = 0",
  ];
}

export function listSessions(db: Statements, query: SessionQuery): SessionPage {
  const { pageSql, pageValues } = buildListStatement(query);
  return db.readConsistently(() => ({
    total: countSessions(db, query),
    sessions: db.all<SessionRow>(pageSql, ...pageValues).map(toSession),
  }));
}

/** Counts the matching sessions with the stored totals, which include archived sessions, or with an index. */
function countSessions(db: Statements, query: SessionQuery): number {
  const { projectDir, search, emptyBefore, spawnedBy, archived, visibleTo } = query;
  const { countSql, countValues } = buildListStatement(query);
  if (search || [emptyBefore, spawnedBy, visibleTo].some((value) => value !== undefined) || archived === "only")
    return db.get<{ n: number }>(countSql, ...countValues)?.n ?? 0;
  if (archived === "exclude")
    return countSessions(db, { ...query, archived: "include" }) - countSessions(db, { ...query, archived: "only" });
  const scope = projectDir === undefined ? "all" : `dir:${projectDir}`;
  return db.get<{ n: number }>("SELECT n FROM totals WHERE scope = ?", scope)?.n ?? 0;
}
