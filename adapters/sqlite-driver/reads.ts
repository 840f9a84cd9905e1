import { currentMessage, currentRun } from "gantry/plugin";
import { SessionNotFoundError, type Message, type RunRecord, type RunState } from "gantry";
import type {
  ChainHead,
  LeaseHolder,
  Instruction,
  LeaseHead,
  MessagePage,
  RunQuery,
  SessionPage,
  SessionQuery,
  StoredRun,
} from "gantry/plugin";
import { messageOf, sessionOf, snapshotOf } from "./rows.js";
import type { MessageRow, PieceRow, SessionRow, SnapshotRow } from "./rows.js";
import type { Statements, SqlValue } from "./statements.js";

/** Name of the SQL function that lower-cases like JavaScript. */
export const LOWER = "gantry_lower";

function sessionRow(db: Statements, id: string): SessionRow | undefined {
  return db.get<SessionRow>("SELECT * FROM sessions WHERE id = ?", id);
}

export function getSession(db: Statements, id: string): SessionRow | undefined {
  return sessionRow(db, id) ?? db.get<SessionRow>("SELECT * FROM sessions WHERE alias = ? AND alias <> ''", id);
}

/** Read at one moment. */
export function headOf(db: Statements, id: string, options: { messages: boolean }): ChainHead | undefined {
  return db.atOnce(() => {
    const head = leaseHeadOf(db, id, options);
    return head && { ...head, snapshots: db.all<SnapshotRow>(SNAPSHOTS, head.original.id).map(snapshotOf) };
  });
}

/** Head without snapshots, for a lease. */
export function leaseHeadOf(db: Statements, id: string, options: { messages: boolean }): LeaseHead | undefined {
  const newest = newestOfChain(db, id) ?? newestOfChain(db, getSession(db, id)?.id ?? "");
  const original = newest && (newest.idx === 0 ? newest : sessionRow(db, newest.root));
  if (!original) return undefined;
  const unfinished = db.all<{ record: string }>(UNFINISHED, original.root);
  return {
    original: sessionOf(original),
    newest: sessionOf(newest),
    messages: options.messages ? messagesOfSession(db, newest) : [],
    unfinished: unfinished.map(({ record }) => recordOf(record)),
  };
}

const SNAPSHOTS =
  "SELECT id, after, created_at FROM snapshots WHERE chain = (SELECT n FROM sessions WHERE id = ?) ORDER BY n";

/** Message columns that a model needs. */
const MODEL_COLUMNS = "n, session, seq, finished, id, role, tool_call_id, name, failed, created_at, parts";

/** Everything of a session that a model needs: its view, then its messages. */
function messagesOfSession(db: Statements, { n, id }: SessionRow): Message[] {
  const rows = db.all<MessageRow>(messagesStatement({}, MODEL_COLUMNS).sql, n, -1);
  return [...viewOf(db, n), ...rows.map((row) => wholeMessage(db, row, id))];
}

export function newestOfChain(db: Statements, id: string): SessionRow | undefined {
  return db.get<SessionRow>(
    `SELECT * FROM sessions WHERE root = (SELECT root FROM sessions WHERE id = ?) AND cut = ''
     ORDER BY idx DESC LIMIT 1`,
    id,
  );
}

/** The statements of a list and of its count, with their values. */
export function listStatement(query: SessionQuery): {
  page: string;
  count: string;
  pageValues: SqlValue[];
  countValues: SqlValue[];
} {
  const where = ["idx = 0"];
  const values: SqlValue[] = [];
  if (query.spawnedBy === undefined) where.push("spawner IS NULL");
  else {
    where.push("spawner = ?");
    values.push(query.spawnedBy);
  }
  if (query.projectDir !== undefined) {
    where.push("project_dir = ?");
    values.push(query.projectDir);
  }
  if (query.emptyBefore !== undefined) {
    where.push("last_seq = 0", "updated_at < ?");
    values.push(query.emptyBefore);
  }
  if (query.search) {
    // SQLite's own `lower` handles only ASCII and is faster for titles without other characters.
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
      query.search || query.emptyBefore !== undefined || query.spawnedBy !== undefined
        ? db.get<{ n: number }>(count, ...countValues)
        : db.get<{ n: number }>(
            "SELECT n FROM totals WHERE scope = ?",
            query.projectDir === undefined ? "all" : `dir:${query.projectDir}`,
          );
    return { sessions: db.all<SessionRow>(page, ...pageValues).map(sessionOf), total: counted?.n ?? 0 };
  });
}

/** The statement of a page of messages, whether it reads backwards, and its values after the id. */
export function messagesStatement(
  page: MessagePage,
  columns = "*",
): { sql: string; descending: boolean; limits: SqlValue[] } {
  const descending = page.before !== undefined && page.after === undefined && page.limit !== undefined;
  const conditions = [
    page.scope === "chain" ? "chain = ?" : "session = ?",
    ...(page.after === undefined ? [] : ["seq > ?"]),
    ...(page.before === undefined ? [] : ["seq < ?"]),
    ...(page.hiddenBy === undefined ? ["cut = ''"] : ["cut = ?", "cut <> ''"]),
    ...(page.tool === undefined ? [] : ["name = ?"]),
  ];
  return {
    sql: `SELECT ${columns} FROM messages WHERE ${conditions.join(" AND ")} ORDER BY seq ${descending ? "DESC" : "ASC"} LIMIT ?`,
    descending,
    limits: [page.after, page.before, page.hiddenBy, page.tool, limitOf(page.limit ?? Infinity)].filter(
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
    return rows.map((row) => wholeMessage(db, row, ids.get(row.session) ?? id));
  });
}

/** A message with its appended text if it is still growing. */
export function wholeMessage(db: Statements, row: MessageRow, sessionId: string): Message {
  const pieces =
    row.finished === 1
      ? []
      : db.all<PieceRow>("SELECT part, type, text FROM pieces WHERE message = ? ORDER BY n", row.n);
  return messageOf(row, sessionId, pieces);
}

/** The compacted view with which a session started. */
export function viewOf(db: Statements, session: number): Message[] {
  const row = db.get<{ messages: string }>("SELECT messages FROM views WHERE session = ?", session);
  return row ? (JSON.parse(row.messages) as Message[]).map(currentMessage) : [];
}

interface RunRow {
  record: string;
  holder: string | null;
}

/** Runs with the holder of their lease. The values are the current time in ms, then those of `WHERE`. */
const RUNS = `SELECT r.record, l.holder FROM runs r
  LEFT JOIN leases l ON l.root = r.root AND l.fence = r.fence AND l.expires_at > ?`;

/**
 * Unfinished runs of a chain, without a holder: the caller has the lease. The `+` makes SQLite sort the few matching
 * rows, instead of scanning all runs of the chain in index order.
 */
export const UNFINISHED = `SELECT record FROM runs WHERE root = ? AND state IN ('queued', 'running', 'waiting')
  ORDER BY +started_at DESC, id DESC`;

/** The stored record of a run. Fields that an earlier version did not store get defaults. */
function recordOf(record: string): RunRecord {
  const lacking = { fingerprint: "", after: 0, queueLease: null, retry: null, answer: null } as const;
  return { ...lacking, ...currentRun(JSON.parse(record) as RunRecord) };
}

const runOf = ({ record, holder }: RunRow): StoredRun => ({
  run: recordOf(record),
  holder: holder === null ? null : (JSON.parse(holder) as LeaseHolder),
});

/** The statement of a list of runs of one state or of all states, and its values after the current time. */
export function runsStatement(query: RunQuery, state?: RunState): { sql: string; values: SqlValue[] } {
  const { id, sessionId, idempotencyKey, before } = query;
  const where = [
    ...(id === undefined ? [] : ["r.id = ?"]),
    ...(sessionId === undefined ? [] : ["r.root = (SELECT root FROM sessions WHERE id = ?)"]),
    ...(state === undefined ? [] : ["r.state = ?"]),
    // Matches the partial index, which excludes runs without a key.
    ...(idempotencyKey === undefined ? [] : ["r.key = ? AND r.key <> ''"]),
    ...(before === undefined ? [] : ["(r.started_at, r.id) < (?, ?)"]),
  ];
  const values = [id, sessionId, state, idempotencyKey, before?.startedAt, before?.id, limitOf(query.limit)];
  return {
    sql: `${RUNS} WHERE ${["1", ...where].join(" AND ")} ORDER BY r.started_at DESC, r.id DESC LIMIT ?`,
    values: values.filter((value) => value !== undefined),
  };
}

/** Reads each state by its own index. */
export function listRuns(db: Statements, query: RunQuery): StoredRun[] {
  const states = query.states ? [...new Set(query.states)] : [undefined];
  return db.atOnce(() =>
    states
      .flatMap((state) => {
        const { sql, values } = runsStatement(query, state);
        return db.all<RunRow>(sql, Date.now(), ...values).map(runOf);
      })
      .sort((a, b) => (sortKeyOf(a) > sortKeyOf(b) ? -1 : 1))
      .slice(0, query.limit),
  );
}

/** Sort key in the order of the index. */
function sortKeyOf({ run }: StoredRun): string {
  return `${run.startedAt}\0${run.id}`;
}

export function listInstructions(db: Statements, sessionId: string): Instruction[] {
  const session = db.get<{ root: string }>("SELECT root FROM sessions WHERE id = ?", sessionId);
  if (!session) throw new SessionNotFoundError(sessionId);
  return instructionsOf(db, session.root);
}

/** Instructions of the chain with this original. */
export function instructionsOf(db: Statements, root: string): Instruction[] {
  return db
    .all<{ instruction: string }>("SELECT instruction FROM instructions WHERE root = ? ORDER BY n", root)
    .map(({ instruction }) => JSON.parse(instruction) as Instruction);
}

/** Limit for SQLite: -1 for none. */
export function limitOf(limit: number): number {
  return Number.isFinite(limit) ? Math.max(0, Math.trunc(limit)) : -1;
}
