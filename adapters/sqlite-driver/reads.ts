import type { Message, MessagePage, Session, SessionPage, SessionQuery, Snapshot } from "gantry";
import { messageOf, sessionOf, snapshotOf } from "./rows.js";
import type { MessageRow, PieceRow, SessionRow, SnapshotRow } from "./rows.js";
import type { Statements, Value } from "./statements.js";

/** The function of a connection that lower-cases as JavaScript does. */
export const LOWER = "gantry_lower";

export function getSession(db: Statements, id: string): Session | undefined {
  const row =
    db.get<SessionRow>("SELECT * FROM sessions WHERE id = ?", id) ??
    db.get<SessionRow>("SELECT * FROM sessions WHERE alias = ? AND alias <> ''", id);
  return row && sessionOf(row);
}

export function newestOfChain(db: Statements, id: string): SessionRow | undefined {
  return db.get<SessionRow>(
    `SELECT * FROM sessions WHERE root = (SELECT root FROM sessions WHERE id = ?) AND cut = ''
     ORDER BY idx DESC LIMIT 1`,
    id,
  );
}

/** The statements of a list and of its count, and their values. */
export function listStatement(query: SessionQuery): {
  page: string;
  count: string;
  pageValues: Value[];
  countValues: Value[];
} {
  const where = ["idx = 0"];
  const values: Value[] = [];
  if (query.projectDir !== undefined) {
    where.push("project_dir = ?");
    values.push(query.projectDir);
  }
  if (query.emptyBefore !== undefined) {
    where.push("last_seq = 0", "updated_at < ?");
    values.push(query.emptyBefore);
  }
  if (query.search) {
    // SQLite's own lower knows ASCII alone, and is quicker where a title has nothing else.
    where.push(
      `instr(CASE WHEN length(title) = length(CAST(title AS BLOB)) THEN lower(title) ELSE ${LOWER}(title) END, ?) > 0`,
    );
    values.push(query.search.toLowerCase());
  }
  const count = `SELECT count(*) AS n FROM sessions WHERE ${where.join(" AND ")}`;
  const countValues = [...values];
  if (query.before) {
    where.push("(updated_at, id) < (?, ?)");
    values.push(query.before.updatedAt, query.before.id);
  }
  values.push(limitOf(query.limit), query.offset ?? 0);
  const page = `SELECT * FROM sessions WHERE ${where.join(" AND ")} ORDER BY updated_at DESC, id DESC LIMIT ? OFFSET ?`;
  return { page, count, pageValues: values, countValues };
}

export function listSessions(db: Statements, query: SessionQuery): SessionPage {
  const { page, count, pageValues, countValues } = listStatement(query);
  return db.atOnce(() => {
    const counted =
      query.search || query.emptyBefore !== undefined
        ? db.get<{ n: number }>(count, ...countValues)
        : db.get<{ n: number }>(
            "SELECT n FROM totals WHERE scope = ?",
            query.projectDir === undefined ? "all" : `dir:${query.projectDir}`,
          );
    return { sessions: db.all<SessionRow>(page, ...pageValues).map(sessionOf), total: counted?.n ?? 0 };
  });
}

/** The statement of a page of messages, whether it is read backwards, and its values behind the id. */
export function messagesStatement(page: MessagePage): { sql: string; descending: boolean; limits: Value[] } {
  const descending = page.before !== undefined && page.after === undefined && page.limit !== undefined;
  const conditions = [
    page.scope === "chain" ? "chain = ?" : "session = ?",
    ...(page.after === undefined ? [] : ["seq > ?"]),
    ...(page.before === undefined ? [] : ["seq < ?"]),
    ...(page.hiddenBy !== undefined ? ["cut = ?", "cut <> ''"] : page.includeCut ? [] : ["cut = ''"]),
  ];
  return {
    sql: `SELECT * FROM messages WHERE ${conditions.join(" AND ")} ORDER BY seq ${descending ? "DESC" : "ASC"} LIMIT ?`,
    descending,
    limits: [page.after, page.before, page.hiddenBy, limitOf(page.limit ?? Infinity)].filter(
      (value) => value !== undefined,
    ),
  };
}

export function listMessages(db: Statements, id: string, page: MessagePage): Message[] {
  const { sql, descending, limits } = messagesStatement(page);
  return db.atOnce(() => {
    const session = db.get<{ n: number; root: string }>("SELECT n, root FROM sessions WHERE id = ?", id);
    if (!session) return [];
    const ids = new Map<number, string>([[session.n, id]]);
    let owner = session.n;
    if (page.scope === "chain") {
      for (const row of db.all<{ n: number; id: string }>("SELECT n, id FROM sessions WHERE root = ?", session.root)) {
        ids.set(row.n, row.id);
        if (row.id === session.root) owner = row.n;
      }
    }
    const rows = db.all<MessageRow>(sql, owner, ...limits);
    if (descending) rows.reverse();
    return rows.map((row) => {
      const pieces =
        row.finished === 1
          ? []
          : db.all<PieceRow>("SELECT part, type, text FROM pieces WHERE message = ? ORDER BY n", row.n);
      return messageOf(row, ids.get(row.session) ?? id, pieces);
    });
  });
}

export function getView(db: Statements, id: string): Message[] {
  const row = db.get<{ messages: string }>(
    "SELECT messages FROM views WHERE session = (SELECT n FROM sessions WHERE id = ?)",
    id,
  );
  return row ? (JSON.parse(row.messages) as Message[]) : [];
}

export function listSnapshots(db: Statements, id: string): Snapshot[] {
  return db
    .all<SnapshotRow>(
      `SELECT id, after, created_at FROM snapshots WHERE chain =
         (SELECT o.n FROM sessions s JOIN sessions o ON o.id = s.root WHERE s.id = ?) ORDER BY n`,
      id,
    )
    .map(snapshotOf);
}

function limitOf(limit: number): number {
  return Number.isFinite(limit) ? Math.max(0, Math.trunc(limit)) : -1;
}
