import { currentMessage, currentRun } from "gantry/plugin";
import { SessionNotFoundError, type Message, type RunRecord, type RunState } from "gantry";
import type { ChainHead, LeaseHolder, Instruction, LeaseHead, MessageQuery, RunQuery, StoredRun } from "gantry/plugin";
import { toMessage, toSession, toSnapshot } from "./rows.js";
import type { MessageRow, PieceRow, SessionRow, SnapshotRow } from "./rows.js";
import type { Statements, SqlValue } from "./statements.js";

function readSessionRow(db: Statements, id: string): SessionRow | undefined {
  return db.get<SessionRow>("SELECT * FROM sessions WHERE id = ?", id);
}

const FIND_SESSION_SQL = `SELECT * FROM sessions WHERE id = ?
  UNION ALL SELECT * FROM sessions WHERE alias = ? AND alias <> '' LIMIT 1`;

/** Finds a session by its id or alias. */
export function findSessionRow(db: Statements, id: string): SessionRow | undefined {
  return db.get<SessionRow>(FIND_SESSION_SQL, id, id);
}

/** Row number and chain of a session. `chain` is the row number `n` of the chain's first session. */
export interface SessionPosition {
  n: number;
  id: string;
  root: string;
  idx: number;
  chain: number;
  /** Fence of the chain's lease. Null without a lease; negative after the release of the lease. */
  fence: number | null;
}

export function findPosition(db: Statements, id: string): SessionPosition | undefined {
  return db.get<SessionPosition>(
    `SELECT s.n, s.id, s.root, s.idx, o.n AS chain, l.fence FROM sessions s JOIN sessions o ON o.id = s.root
     LEFT JOIN leases l ON l.root = s.root WHERE s.id = ?`,
    id,
  );
}

/** Reads the head of a chain in one transaction. `id`: id of any session of the chain, or an alias. */
export function readHead(db: Statements, id: string, options: { messages: boolean }): ChainHead | undefined {
  return db.readConsistently(() => {
    const head = readLeaseHead(db, id, options);
    return head && { ...head, snapshots: db.all<SnapshotRow>(SNAPSHOTS_SQL, head.root.id).map(toSnapshot) };
  });
}

/** Reads the head without snapshots, for a lease. */
export function readLeaseHead(db: Statements, id: string, options: { messages: boolean }): LeaseHead | undefined {
  const newestSession = findNewestSession(db, id) ?? findNewestSession(db, findSessionRow(db, id)?.id ?? "");
  const originalSession =
    newestSession && (newestSession.idx === 0 ? newestSession : readSessionRow(db, newestSession.root));
  if (!originalSession) return undefined;
  const runRows = db.all<{ record: string }>(UNFINISHED_RUNS_SQL, originalSession.root);
  return {
    root: toSession(originalSession),
    newest: toSession(newestSession),
    messages: options.messages ? readModelMessages(db, newestSession) : [],
    unfinished: runRows.map(({ record }) => parseRunRecord(record)),
  };
}

const SNAPSHOTS_SQL =
  "SELECT id, after, created_at FROM snapshots WHERE chain = (SELECT n FROM sessions WHERE id = ?) ORDER BY n";

/** Message columns that a model needs. */
const MODEL_COLUMNS = "n, session, seq, finished, id, role, tool_call_id, name, failed, created_at, parts";

/** Reads the view and then the messages of a session, with the columns that a model needs. */
function readModelMessages(db: Statements, { n, id }: SessionRow): Message[] {
  const rows = db.all<MessageRow>(buildMessagesStatement({}, MODEL_COLUMNS).sql, n, -1);
  return [...readView(db, n), ...rows.map((row) => readMessage(db, row, id))];
}

/** Finds the newest visible session of the chain that contains `id`. */
export function findNewestSession(db: Statements, id: string): SessionRow | undefined {
  return db.get<SessionRow>(
    `SELECT * FROM sessions WHERE root = (SELECT root FROM sessions WHERE id = ?) AND cut = ''
     ORDER BY idx DESC LIMIT 1`,
    id,
  );
}

/** Builds the statement of a page of messages. `values` follow the row number `n` of the session or chain. */
export function buildMessagesStatement(
  page: MessageQuery,
  columns = "*",
): { sql: string; isDescending: boolean; values: SqlValue[] } {
  const isDescending = page.before !== undefined && page.after === undefined && page.limit !== undefined;
  const conditions = [
    page.scope === "chain" ? "chain = ?" : "session = ?",
    ...(page.after === undefined ? [] : ["seq > ?"]),
    ...(page.before === undefined ? [] : ["seq < ?"]),
    ...(page.hiddenBy === undefined ? ["cut = ''"] : ["cut = ?", "cut <> ''"]),
    ...(page.tool === undefined ? [] : ["name = ?"]),
  ];
  return {
    sql: `SELECT ${columns} FROM messages WHERE ${conditions.join(" AND ")} ORDER BY seq ${isDescending ? "DESC" : "ASC"} LIMIT ?`,
    isDescending,
    values: [page.after, page.before, page.hiddenBy, page.tool, toSqlLimit(page.limit ?? Infinity)].filter(
      (value) => value !== undefined,
    ),
  };
}

export function listMessages(db: Statements, id: string, page: MessageQuery): Message[] {
  const { sql, isDescending, values } = buildMessagesStatement(page);
  return db.readConsistently(() => {
    const session = db.get<{ n: number; root: string }>("SELECT n, root FROM sessions WHERE id = ?", id);
    if (!session) return [];
    const idsByN = new Map<number, string>([[session.n, id]]);
    let ownerN = session.n;
    if (page.scope === "chain") {
      for (const row of db.all<{ n: number; id: string }>("SELECT n, id FROM sessions WHERE root = ?", session.root)) {
        idsByN.set(row.n, row.id);
        if (row.id === session.root) ownerN = row.n;
      }
    }
    const rows = db.all<MessageRow>(sql, ownerN, ...values);
    if (isDescending) rows.reverse();
    return rows.map((row) => readMessage(db, row, idsByN.get(row.session) ?? id));
  });
}

/** Converts a row to a message. Reads the appended text if the message is unfinished. */
export function readMessage(db: Statements, row: MessageRow, sessionId: string): Message {
  const pieces =
    row.finished === 1
      ? []
      : db.all<PieceRow>("SELECT part, type, text FROM pieces WHERE message = ? ORDER BY n", row.n);
  return toMessage(row, sessionId, pieces);
}

/** Reads the compacted view with which a session started; empty if the session started without a view. */
export function readView(db: Statements, session: number): Message[] {
  const row = db.get<{ messages: string }>("SELECT messages FROM views WHERE session = ?", session);
  return row ? (JSON.parse(row.messages) as Message[]).map(currentMessage) : [];
}

interface RunRow {
  record: string;
  holder: string | null;
}

/** Selects runs, with the holder of their lease. Values: the current time in ms, then the values of `WHERE`. */
const RUNS_SQL = `SELECT record, started_at, id,
  (SELECT l.holder FROM leases l WHERE l.root = r.root AND l.fence = r.fence AND l.expires_at > ?) AS holder FROM runs r`;

/**
 * Selects the unfinished runs of a chain, without a holder, because the caller has the lease. The `+` makes SQLite sort
 * the few matching rows, instead of scanning all runs of the chain in index order.
 */
export const UNFINISHED_RUNS_SQL = `SELECT record FROM runs WHERE root = ? AND state IN ('queued', 'running', 'waiting')
  ORDER BY +started_at DESC, id DESC`;

/** Parses a stored run. Fields that an earlier version did not store get defaults. */
function parseRunRecord(record: string): RunRecord {
  const defaults = { fingerprint: "", after: 0, queueLease: null, retry: null, answer: null } as const;
  return { ...defaults, ...currentRun(JSON.parse(record) as RunRecord) };
}

const toStoredRun = ({ record, holder }: RunRow): StoredRun => ({
  run: parseRunRecord(record),
  holder: holder === null ? null : (JSON.parse(holder) as LeaseHolder),
});

/** Builds the statement of a list of runs, of one state or of all. `nowMs`: current time, for the holders. */
export function buildRunsStatement(query: RunQuery, state?: RunState, nowMs = 0): { sql: string; values: SqlValue[] } {
  const { id, sessionId, idempotencyKey, startedBy, before } = query;
  const conditions = [
    ...(id === undefined ? [] : ["id = ?"]),
    ...(sessionId === undefined ? [] : ["root = (SELECT root FROM sessions WHERE id = ?)"]),
    ...(state === undefined ? [] : ["state = ?"]),
    // Matches the partial index, which excludes runs without a key.
    ...(idempotencyKey === undefined ? [] : ["key = ? AND key <> ''"]),
    ...(startedBy === undefined ? [] : ["started_by = ? AND started_by <> ''"]),
    ...(before === undefined ? [] : ["(started_at, id) < (?, ?)"]),
  ];
  const values = [id, sessionId, state, idempotencyKey, startedBy, before?.startedAt, before?.id];
  const sources = listVisibleSources(query, state === undefined ? "runs_of_reader" : "runs_of_reader_state");
  return {
    sql: `${sources.map(({ sql }) => [`${RUNS_SQL} ${sql}`, ...conditions].join(" AND ")).join(" UNION ALL ")}
      ORDER BY started_at DESC, id DESC LIMIT ?`,
    values: [
      ...sources.flatMap(({ readers }) => [nowMs, ...readers, ...values.filter((value) => value !== undefined)]),
      toSqlLimit(query.limit),
    ],
  };
}

/** Lists runs, newest first. One query per state, because each such query can use the index of states. */
export function listRuns(db: Statements, query: RunQuery): StoredRun[] {
  const readRuns = (state?: RunState): StoredRun[] => {
    const { sql, values } = buildRunsStatement(query, state, Date.now() + db.clockOffsetMs);
    return db.all<RunRow>(sql, ...values).map(toStoredRun);
  };
  if (!query.states) return readRuns();
  const states = [...new Set(query.states)];
  return db
    .readConsistently(() => states.flatMap(readRuns))
    .sort((a, b) => (sortKeyOf(a) > sortKeyOf(b) ? -1 : 1))
    .slice(0, query.limit);
}

function sortKeyOf({ run }: StoredRun): string {
  return `${run.startedAt}\0${run.id}`;
}

export function listInstructions(db: Statements, sessionId: string): Instruction[] {
  const session = db.get<{ root: string }>("SELECT root FROM sessions WHERE id = ?", sessionId);
  if (!session) throw new SessionNotFoundError(sessionId);
  return readInstructions(db, session.root);
}

/** Reads the instructions of the chain with this root id. */
export function readInstructions(db: Statements, root: string): Instruction[] {
  return db
    .all<{ instruction: string }>("SELECT instruction FROM instructions WHERE root = ? ORDER BY n", root)
    .map(({ instruction }) => JSON.parse(instruction) as Instruction);
}

/**
 * Builds the starts of the `WHERE` clauses of a list of runs or asks. The rows that only a user reads and the shared rows
 * are two sources, so that SQLite merges two ranges of an index instead of reading the rows of all users.
 */
export function listVisibleSources(
  { visibleTo, id, sessionId, idempotencyKey }: Pick<RunQuery, "visibleTo" | "id" | "sessionId" | "idempotencyKey">,
  index: string,
): { sql: string; readers: string[] }[] {
  if (visibleTo === undefined) return [{ sql: "WHERE 1", readers: [] }];
  const readers = [`owner:${visibleTo}`, "shared"];
  // The other criteria match few rows: the `+` keeps SQLite from using the index of readers.
  if (id !== undefined || sessionId !== undefined || idempotencyKey !== undefined)
    return [{ sql: "WHERE +reader IN (?, ?)", readers }];
  return readers.map((reader) => ({
    sql: `INDEXED BY ${index} WHERE reader = ? AND reader <> ''`,
    readers: [reader],
  }));
}

/** Converts a limit for SQLite; -1 means no limit. */
export function toSqlLimit(limit: number): number {
  return Number.isFinite(limit) ? Math.max(0, Math.trunc(limit)) : -1;
}
