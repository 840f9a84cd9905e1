import { currentMessage } from "gantry/plugin";
import { SessionNotFoundError } from "gantry";
import type { Ask, Message, Session } from "gantry";
import type {
  AskQuery,
  ChainData,
  ChainHead,
  Instruction,
  LeaseHead,
  MessagePage,
  RunQuery,
  SessionData,
  SessionPage,
  SessionQuery,
  Snapshot,
  StoredRun,
} from "gantry/plugin";
import { LONG_STATEMENT_SECONDS } from "./call-batcher.js";
import type { ParameterValue } from "./connections.js";
import { askOf, instructionOf, messageOf, recordOf, runOf, sessionOf, snapshotOf } from "./rows.js";
import type { AskRow, ReadRow, RunRow } from "./rows.js";
import type { SchemaStore } from "./store.js";
import { encodeText, decodeText } from "./text-encoding.js";

/** Greatest possible seq. */
const MAX_SEQ = Number.MAX_SAFE_INTEGER;
/** Columns of a run, then its current holder by the server's clock. */
const RUN = `r.record, r.named, r.key, c.root,
  CASE WHEN c.fence = r.fence AND c.expires > floor(extract(epoch FROM clock_timestamp()) * 1000) THEN c.holder END AS holder`;
/** The chain of a session id. */
const CHAIN = "(SELECT n.chain FROM @.names n WHERE n.name = $1 AND NOT n.alias)";

export async function getSession(store: SchemaStore, id: string): Promise<Session | undefined> {
  const text = `"call":"get","id":${JSON.stringify(encodeText(id))}`;
  const [part] = await store.call({ text, sync: false, isReadOnly: true });
  return part && sessionOf(part.body);
}

/** A state per chain that differs after each change, by the id of its original. A missing chain has no entry. */
export async function statesOf(store: SchemaStore, rootIds: readonly string[]): Promise<Map<string, string>> {
  // The row version, because every change of a chain updates its row.
  const rows = await store.read<{ root: string; state: string }>(
    "SELECT c.root, c.xmin::text AS state FROM @.chains c WHERE c.root = ANY ($1)",
    [rootIds.map(encodeText)],
  );
  return new Map(rows.map(({ root, state }) => [decodeText(root), state]));
}

export async function headOfChain(store: SchemaStore, id: string, messages: boolean): Promise<ChainHead | undefined> {
  const sql = "SELECT * FROM @.head@v((SELECT n.chain FROM @.names n WHERE n.name = $1), $2)";
  return headOf(await store.read<ReadRow>(sql, [encodeText(id), messages]));
}

/** Parses the rows of the database function `head`. */
function headOf(parts: readonly ReadRow[]): ChainHead | undefined {
  const head = leaseHeadOf(parts);
  return head && { ...head, snapshots: snapshotsOf(parts) };
}

/** Head without snapshots, for a lease. */
export function leaseHeadOf(parts: readonly ReadRow[]): LeaseHead | undefined {
  const sessions = kindOf(parts, "s").map(({ body }) => sessionOf(body));
  const byIndex = sessions.sort((a, b) => a.chain.index - b.chain.index);
  const [original, newest = original] = byIndex;
  if (!original || !newest) return undefined;
  const [view] = kindOf(parts, "v");
  const storedMessages = inOrder(kindOf(parts, "m")).map((part) => messageOf(part, newest.id));
  const unfinished = kindOf(parts, "r").map((part) => runOfPart(part, original.id));
  // The same session, but each result is a separate object.
  const both = { original, newest: newest === original ? structuredClone(original) : newest };
  const messages = view
    ? [...(JSON.parse(view.body) as Message[]).map(currentMessage), ...storedMessages]
    : storedMessages;
  return { ...both, messages, unfinished };
}

const kindOf = (parts: readonly ReadRow[], kind: string): ReadRow[] => parts.filter((part) => part.kind === kind);
const inOrder = (parts: ReadRow[]): ReadRow[] => parts.sort((a, b) => Number(a.seq) - Number(b.seq));
const snapshotsOf = (parts: readonly ReadRow[]): Snapshot[] =>
  kindOf(parts, "p").map(({ tag, seq, body }) => snapshotOf({ id: tag, after: seq, created_at: body }));
const runOfPart = ({ tag, body, more }: ReadRow, root: string) =>
  recordOf({ record: body, named: more, key: tag }, root);

/**
 * A page and its total, read at one moment. Each row contains the total; an empty page has one row with only the total.
 */
export async function listSessions(store: SchemaStore, query: SessionQuery): Promise<SessionPage> {
  const { sql, values } = listStatement(query);
  const rows = await store.read<{ body: string | null; total: string }>(sql, values);
  const bodies = rows.flatMap(({ body }) => (body === null ? [] : [body]));
  return { sessions: bodies.map(sessionOf), total: Number(rows[0]?.total ?? 0) };
}

/** The statement of a list, and its values. */
export function listStatement(query: SessionQuery): { sql: string; values: ParameterValue[] } {
  const { projectDir, spawnedBy, search = "", emptyBefore, before, offset = 0 } = query;
  const isPlain = projectDir !== undefined && spawnedBy === undefined;
  if (isPlain && search === "" && emptyBefore === undefined && before === undefined && offset === 0)
    return { sql: "SELECT * FROM @.of_dir@v($1, $2)", values: [encodeText(projectDir), limitOf(query.limit)] };
  const values: ParameterValue[] = [];
  const value = (parameter: ParameterValue): string => `$${values.push(parameter)}`;
  const where = ["s.idx = 0"];
  let scope = "''";
  if (spawnedBy === undefined) where.push("s.spawner IS NULL");
  else {
    const spawner = value(encodeText(spawnedBy));
    // The same expression as in the index.
    where.push(`left(s.spawner, 200) = left(${spawner}, 200)`, `s.spawner = ${spawner}`);
  }
  if (query.projectDir !== undefined) {
    const dir = value(encodeText(query.projectDir));
    scope = `@.scope@v(${dir})`;
    // The same expression as in the index.
    where.push(`left(s.project_dir, 200) = left(${dir}, 200)`, `s.project_dir = ${dir}`);
  }
  if (query.emptyBefore !== undefined) where.push("s.empty", `s.updated_at < ${value(encodeText(query.emptyBefore))}`);
  if (query.search) where.push(`strpos(s.search, ${value(encodeText(query.search.toLowerCase()))}) > 0`);
  const isCounted = query.search || query.emptyBefore !== undefined || spawnedBy !== undefined;
  const total = isCounted
    ? `SELECT count(*) AS total FROM @.sessions s WHERE ${where.join(" AND ")}`
    : `SELECT coalesce(sum(t.n), 0) AS total FROM @.totals t WHERE t.scope = ${scope}`;
  if (query.before)
    where.push(
      `(s.updated_at, s.id) < (${value(encodeText(query.before.updatedAt))}, ${value(encodeText(query.before.id))})`,
    );
  const limits = `LIMIT ${value(limitOf(query.limit))} OFFSET ${value(limitOf(query.offset ?? 0))}`;
  const page = `SELECT s.* FROM @.sessions s WHERE ${where.join(" AND ")} ORDER BY s.updated_at DESC, s.id DESC ${limits}`;
  const sql = `SELECT t.total, row_to_json(p)::text AS body FROM (${total}) t LEFT JOIN (${page}) p ON true
    ORDER BY p.updated_at DESC, p.id DESC`;
  return { sql, values };
}

export async function listMessages(store: SchemaStore, id: string, page: MessagePage): Promise<Message[]> {
  const { after = -1, before = MAX_SEQ, limit = Infinity, scope, hiddenBy, tool } = page;
  const last = page.before !== undefined && page.after === undefined && page.limit !== undefined;
  const rows = await store.read<ReadRow>("SELECT * FROM @.messages@v($1, $2, $3, $4, $5, $6, $7, $8)", [
    encodeText(id),
    scope === "chain",
    after,
    before,
    limitOf(limit),
    last,
    hiddenBy === undefined ? null : encodeText(hiddenBy),
    tool === undefined ? null : encodeText(tool),
  ]);
  return inOrder(rows).map((part) => messageOf(part, decodeText(part.tag)));
}

export async function listRuns(store: SchemaStore, query: RunQuery): Promise<StoredRun[]> {
  if (query.states?.length === 0) return [];
  const { sql, values } = runsStatement(query);
  return (await store.read<RunRow>(sql, values)).map(runOf);
}

/** The statement of a list of runs, which reads each state by its own index, and its values. */
export function runsStatement({ id, sessionId, states, idempotencyKey, before, limit }: RunQuery): {
  sql: string;
  values: ParameterValue[];
} {
  if (
    id !== undefined &&
    [sessionId, states, idempotencyKey, before].every((criterion) => criterion === undefined) &&
    limit > 0
  )
    return { sql: "SELECT * FROM @.run@v($1)", values: [encodeText(id)] };
  const values: ParameterValue[] = [];
  const value = (parameter: ParameterValue): string => `$${values.push(parameter)}`;
  const where = ["true"];
  if (id !== undefined) where.push(`r.id = ${value(encodeText(id))}`);
  if (sessionId !== undefined) where.push(`r.chain = ${CHAIN.replace("$1", value(encodeText(sessionId)))}`);
  // Matches the partial index, which excludes runs without a key.
  if (idempotencyKey !== undefined) where.push(`r.key = ${value(encodeText(idempotencyKey))} AND r.key <> ''`);
  if (before)
    where.push(`(r.started_at, r.id) < (${value(encodeText(before.startedAt))}, ${value(encodeText(before.id))})`);
  const limitParameter = value(limitOf(limit));
  const order = "ORDER BY r.started_at DESC, r.id DESC";
  const statements = (
    states === undefined ? [[]] : [...new Set(states)].map((state) => [`r.state = ${value(state)}`])
  ).map(
    (state) =>
      `(SELECT r.* FROM @.runs r WHERE ${[...where, ...state].join(" AND ")} ${order} LIMIT ${limitParameter})`,
  );
  const sql = `SELECT ${RUN} FROM (${statements.join(" UNION ALL ")}) r JOIN @.chains c ON c.chain = r.chain ${order} LIMIT ${limitParameter}`;
  return { sql, values };
}

export async function listAsks(store: SchemaStore, query: AskQuery): Promise<Ask[]> {
  const { sql, values } = asksStatement(query);
  return (await store.read<AskRow>(sql, values)).map(askOf);
}

/** The statement of a list of asks, and its values. */
export function asksStatement({ id, sessionId, open = false, before, limit }: AskQuery): {
  sql: string;
  values: ParameterValue[];
} {
  const values: ParameterValue[] = [];
  const value = (parameter: ParameterValue): string => `$${values.push(parameter)}`;
  const where = ["true", ...(open ? ["a.state = 'open'"] : [])];
  if (id !== undefined) where.push(`a.id = ${value(encodeText(id))}`);
  if (sessionId !== undefined) where.push(`a.chain = ${CHAIN.replace("$1", value(encodeText(sessionId)))}`);
  if (before)
    where.push(`(a.created_at, a.id) < (${value(encodeText(before.createdAt))}, ${value(encodeText(before.id))})`);
  const sql = `SELECT c.root, a.state, a.ask, a.answered FROM @.asks a JOIN @.chains c ON c.chain = a.chain
    WHERE ${where.join(" AND ")} ORDER BY a.created_at DESC, a.id DESC LIMIT ${value(limitOf(limit))}`;
  return { sql, values };
}

export async function listInstructions(store: SchemaStore, sessionId: string): Promise<Instruction[]> {
  const sql = `SELECT c.root, i.instruction FROM @.chains c
    LEFT JOIN @.instructions i ON i.chain = c.chain AND i.withdrawn IS NULL WHERE c.chain = ${CHAIN} ORDER BY i.n`;
  const rows = await store.read<{ root: string; instruction: string | null }>(sql, [encodeText(sessionId)]);
  if (rows.length === 0) throw new SessionNotFoundError(sessionId);
  return rows.flatMap(({ root, instruction }) => (instruction === null ? [] : [instructionOf({ root, instruction })]));
}

/** Complete data of a chain, read at one moment. */
export async function dumpChain(store: SchemaStore, id: string): Promise<ChainData | undefined> {
  const parts = await store.read<ReadRow>("SELECT * FROM @.dump@v($1)", [encodeText(id)], LONG_STATEMENT_SECONDS);
  const sessions = new Map<number, SessionData>();
  for (const { idx, tag, body } of kindOf(parts, "s").sort((a, b) => a.idx - b.idx))
    sessions.set(idx, { session: sessionOf(body), hiddenBy: decodeText(tag), view: [], messages: [] });
  const root = sessions.get(0)?.session.id;
  if (root === undefined) return undefined;
  for (const { idx, body } of kindOf(parts, "v")) {
    const data = sessions.get(idx);
    if (data) data.view = (JSON.parse(body) as Message[]).map(currentMessage);
  }
  for (const part of inOrder(kindOf(parts, "m"))) {
    const data = sessions.get(part.idx);
    data?.messages.push({ message: messageOf(part, data.session.id), hiddenBy: decodeText(part.tag) });
  }
  return {
    sessions: [...sessions.values()],
    snapshots: snapshotsOf(parts),
    runs: kindOf(parts, "r").map((part) => runOfPart(part, root)),
    asks: kindOf(parts, "a").map(({ tag, body, more }) =>
      askOf({ root: encodeText(root), state: tag, ask: body, answered: more ?? "" }),
    ),
  };
}

/** Limit for PostgreSQL; null for none. */
function limitOf(limit: number): number | null {
  return Number.isFinite(limit) ? Math.min(MAX_SEQ, Math.max(0, Math.trunc(limit))) : null;
}
