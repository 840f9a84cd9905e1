import { currentMessage } from "gantry/plugin";
import { SessionNotFoundError } from "gantry";
import type { Ask, Message, Session } from "gantry";
import type {
  AskQuery,
  ChainData,
  ChainHead,
  Instruction,
  LeaseHead,
  MessageQuery,
  RunQuery,
  SessionData,
  Snapshot,
  StoredRun,
} from "gantry/plugin";
import { LONG_STATEMENT_SECONDS } from "./call-batcher.js";
import type { ParameterValue } from "./connections.js";
import { listReaders, toReader } from "./readers.js";
import { toAsk, toInstruction, toMessage, toRunRecord, toStoredRun, toSession, toSnapshot } from "./rows.js";
import type { AskRow, ReadRow, RunRow } from "./rows.js";
import type { SchemaStore } from "./store.js";
import { encodeText, decodeText } from "./text-encoding.js";

/** Greatest possible `seq`. */
const MAX_SEQ = Number.MAX_SAFE_INTEGER;
/** Columns of a run; `holder` is null if the lease of the last write has expired or was replaced. */
const RUN_COLUMNS = `r.record, r.named, r.key, c.root,
  CASE WHEN c.fence = r.fence AND c.expires > floor(extract(epoch FROM clock_timestamp()) * 1000) THEN c.holder END AS holder`;
/** SQL for the chain of the session id `$1`. */
const CHAIN_SQL = "(SELECT n.chain FROM @.names n WHERE n.name = $1 AND NOT n.alias)";

export async function getSession(store: SchemaStore, id: string): Promise<Session | undefined> {
  const json = `"call":"get","id":${JSON.stringify(encodeText(id))}`;
  const [row] = await store.call({ json, needsSync: false, isReadOnly: true });
  return row && toSession(row.body);
}

/** Returns a state per chain that differs after each change, by root id. A missing chain has no entry. */
export async function readChainStates(store: SchemaStore, rootIds: readonly string[]): Promise<Map<string, string>> {
  // The row version, because every change of a chain updates its row.
  const rows = await store.read<{ root: string; state: string }>(
    "SELECT c.root, c.xmin::text AS state FROM @.chains c WHERE c.root = ANY ($1)",
    [rootIds.map(encodeText)],
  );
  return new Map(rows.map(({ root, state }) => [decodeText(root), state]));
}

export async function readChainHead(
  store: SchemaStore,
  id: string,
  includesMessages: boolean,
): Promise<ChainHead | undefined> {
  const sql = "SELECT * FROM @.head@v((SELECT n.chain FROM @.names n WHERE n.name = $1), $2)";
  return toHead(await store.read<ReadRow>(sql, [encodeText(id), includesMessages]));
}

/** Parses the rows of the database function `head`. */
function toHead(rows: readonly ReadRow[]): ChainHead | undefined {
  const head = toLeaseHead(rows);
  return head && { ...head, snapshots: toSnapshots(rows) };
}

/** Parses the rows of a head without snapshots, for a lease. */
export function toLeaseHead(rows: readonly ReadRow[]): LeaseHead | undefined {
  const sessions = filterByKind(rows, "s").map(({ body }) => toSession(body));
  const [rootSession, newestSession = rootSession] = sessions.sort((a, b) => a.chain.index - b.chain.index);
  if (!rootSession || !newestSession) return undefined;
  const [view] = filterByKind(rows, "v");
  const storedMessages = sortBySeq(filterByKind(rows, "m")).map((row) => toMessage(row, newestSession.id));
  const unfinishedRuns = filterByKind(rows, "r").map((row) => toRun(row, rootSession.id));
  // A caller may modify one of the two sessions, so both are never the same object.
  const newest = newestSession === rootSession ? structuredClone(rootSession) : newestSession;
  const messages = view
    ? [...(JSON.parse(view.body) as Message[]).map(currentMessage), ...storedMessages]
    : storedMessages;
  return { root: rootSession, newest, messages, unfinished: unfinishedRuns };
}

const filterByKind = (rows: readonly ReadRow[], kind: string): ReadRow[] => rows.filter((row) => row.kind === kind);
const sortBySeq = (rows: ReadRow[]): ReadRow[] => rows.sort((a, b) => Number(a.seq) - Number(b.seq));
const toSnapshots = (rows: readonly ReadRow[]): Snapshot[] =>
  filterByKind(rows, "p").map(({ tag, seq, body }) => toSnapshot({ id: tag, after: seq, created_at: body }));
const toRun = ({ tag, body, more }: ReadRow, root: string) =>
  toRunRecord({ record: body, named: more, key: tag }, root);

export async function listMessages(store: SchemaStore, id: string, page: MessageQuery): Promise<Message[]> {
  const { after = -1, before = MAX_SEQ, limit = Infinity, scope, hiddenBy, tool } = page;
  const readsBackwards = page.before !== undefined && page.after === undefined && page.limit !== undefined;
  const rows = await store.read<ReadRow>("SELECT * FROM @.messages@v($1, $2, $3, $4, $5, $6, $7, $8)", [
    encodeText(id),
    scope === "chain",
    after,
    before,
    toSqlLimit(limit),
    readsBackwards,
    hiddenBy === undefined ? null : encodeText(hiddenBy),
    tool === undefined ? null : encodeText(tool),
  ]);
  return sortBySeq(rows).map((row) => toMessage(row, decodeText(row.tag)));
}

export async function listRuns(store: SchemaStore, query: RunQuery): Promise<StoredRun[]> {
  if (query.states?.length === 0) return [];
  const { sql, values } = buildRunsStatement(query);
  return (await store.read<RunRow>(sql, values)).map(toStoredRun);
}

/** Builds the statement of `listRuns`, which reads each state by its own index, and its values. */
export function buildRunsStatement(query: RunQuery): { sql: string; values: ParameterValue[] } {
  const { id, sessionId, states, idempotencyKey, startedBy, visibleTo, before, limit } = query;
  if (
    id !== undefined &&
    [sessionId, states, idempotencyKey, startedBy, visibleTo, before].every((criterion) => criterion === undefined) &&
    limit > 0
  )
    return { sql: "SELECT * FROM @.run@v($1)", values: [encodeText(id)] };
  const values: ParameterValue[] = [];
  const addValue = (parameter: ParameterValue): string => `$${values.push(parameter)}`;
  const conditions = ["true"];
  if (id !== undefined) conditions.push(`r.id = ${addValue(encodeText(id))}`);
  if (sessionId !== undefined) conditions.push(`r.chain = ${CHAIN_SQL.replace("$1", addValue(encodeText(sessionId)))}`);
  // Matches the partial index, which excludes runs without a key.
  if (idempotencyKey !== undefined) conditions.push(`r.key = ${addValue(encodeText(idempotencyKey))} AND r.key <> ''`);
  if (startedBy !== undefined)
    conditions.push(`r.started_by = ${addValue(toReader(startedBy))} AND r.started_by <> ''`);
  if (before)
    conditions.push(
      `(r.started_at, r.id) < (${addValue(encodeText(before.startedAt))}, ${addValue(encodeText(before.id))})`,
    );
  const limitParameter = addValue(toSqlLimit(limit));
  const orderSql = "ORDER BY r.started_at DESC, r.id DESC";
  const stateConditions = states ? [...new Set(states)].map((state) => `r.state = ${addValue(state)}`) : ["true"];
  const sources = listVisibleSources(query, addValue);
  const statements = stateConditions.flatMap((state) =>
    sources.map(
      (source) =>
        `(SELECT r.* FROM @.runs r WHERE ${[...conditions, state, source].join(" AND ")} ${orderSql} LIMIT ${limitParameter})`,
    ),
  );
  const sql = `SELECT ${RUN_COLUMNS} FROM (${statements.join(" UNION ALL ")}) r JOIN @.chains c ON c.chain = r.chain ${orderSql} LIMIT ${limitParameter}`;
  return { sql, values };
}

export async function listAsks(store: SchemaStore, query: AskQuery): Promise<Ask[]> {
  const { sql, values } = buildAsksStatement(query);
  return (await store.read<AskRow>(sql, values)).map(toAsk);
}

/** Builds the statement of `listAsks` and its values. */
export function buildAsksStatement({ id, sessionId, open = false, visibleTo, before, limit }: AskQuery): {
  sql: string;
  values: ParameterValue[];
} {
  const values: ParameterValue[] = [];
  const addValue = (parameter: ParameterValue): string => `$${values.push(parameter)}`;
  const conditions = ["true", ...(open ? ["r.state = 'open'"] : [])];
  if (id !== undefined) conditions.push(`r.id = ${addValue(encodeText(id))}`);
  if (sessionId !== undefined) conditions.push(`r.chain = ${CHAIN_SQL.replace("$1", addValue(encodeText(sessionId)))}`);
  if (before)
    conditions.push(
      `(r.created_at, r.id) < (${addValue(encodeText(before.createdAt))}, ${addValue(encodeText(before.id))})`,
    );
  const orderSql = `ORDER BY r.created_at DESC, r.id DESC LIMIT ${addValue(toSqlLimit(limit))}`;
  const statements = listVisibleSources({ id, sessionId, visibleTo }, addValue).map(
    (source) => `(SELECT r.* FROM @.asks r WHERE ${[...conditions, source].join(" AND ")} ${orderSql})`,
  );
  const sql = `SELECT c.root, r.state, r.ask, r.answered FROM (${statements.join(" UNION ALL ")}) r
    JOIN @.chains c ON c.chain = r.chain ${orderSql}`;
  return { sql, values };
}

/**
 * Builds the conditions of the sources of a list of runs or asks `r`. The rows that only a user reads and the shared rows
 * are two sources, so that each is read in the order of an index.
 */
function listVisibleSources(
  { visibleTo, id, sessionId, idempotencyKey }: Pick<RunQuery, "visibleTo" | "id" | "sessionId" | "idempotencyKey">,
  addValue: (parameter: ParameterValue) => string,
): string[] {
  if (visibleTo === undefined) return ["true"];
  const readers = listReaders(visibleTo).map(addValue);
  // The other criteria match few rows.
  if (id !== undefined || sessionId !== undefined || idempotencyKey !== undefined)
    return [`r.reader IN (${readers.join(", ")})`];
  return readers.map((reader) => `r.reader = ${reader} AND r.reader <> ''`);
}

export async function listInstructions(store: SchemaStore, sessionId: string): Promise<Instruction[]> {
  const sql = `SELECT c.root, i.instruction FROM @.chains c
    LEFT JOIN @.instructions i ON i.chain = c.chain AND i.withdrawn IS NULL WHERE c.chain = ${CHAIN_SQL} ORDER BY i.n`;
  const rows = await store.read<{ root: string; instruction: string | null }>(sql, [encodeText(sessionId)]);
  if (rows.length === 0) throw new SessionNotFoundError(sessionId);
  return rows.flatMap(({ root, instruction }) => (instruction === null ? [] : [toInstruction({ root, instruction })]));
}

/** Reads the complete data of a chain in one statement. */
export async function dumpChain(store: SchemaStore, id: string): Promise<ChainData | undefined> {
  const rows = await store.read<ReadRow>("SELECT * FROM @.dump@v($1)", [encodeText(id)], LONG_STATEMENT_SECONDS);
  const sessionsByIndex = new Map<number, SessionData>();
  for (const { idx, tag, body } of filterByKind(rows, "s").sort((a, b) => a.idx - b.idx))
    sessionsByIndex.set(idx, { session: toSession(body), hiddenBy: decodeText(tag), view: [], messages: [] });
  const root = sessionsByIndex.get(0)?.session.id;
  if (root === undefined) return undefined;
  for (const { idx, body } of filterByKind(rows, "v")) {
    const data = sessionsByIndex.get(idx);
    if (data) data.view = (JSON.parse(body) as Message[]).map(currentMessage);
  }
  for (const row of sortBySeq(filterByKind(rows, "m"))) {
    const data = sessionsByIndex.get(row.idx);
    data?.messages.push({ message: toMessage(row, data.session.id), hiddenBy: decodeText(row.tag) });
  }
  return {
    sessions: [...sessionsByIndex.values()],
    snapshots: toSnapshots(rows),
    runs: filterByKind(rows, "r").map((row) => toRun(row, root)),
    asks: filterByKind(rows, "a").map(({ tag, body, more }) =>
      toAsk({ root: encodeText(root), state: tag, ask: body, answered: more ?? "" }),
    ),
  };
}

/** Converts a limit for PostgreSQL; null means no limit. */
export function toSqlLimit(limit: number): number | null {
  return Number.isFinite(limit) ? Math.min(MAX_SEQ, Math.max(0, Math.trunc(limit))) : null;
}
