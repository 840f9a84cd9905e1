import { LeaseLostError, PointNotFoundError, RunKeyTakenError, SessionExistsError, SessionNotFoundError } from "gantry";
import { SeqTakenError } from "gantry/plugin";
import type { Message, RunRecord } from "gantry";
import type {
  ChangeResult,
  LeaseHolder,
  Instruction,
  LeaseConflict,
  LeaseOptions,
  AcquiredLease,
  PartDelta,
  SessionChange,
  SessionStart,
  Snapshot,
} from "gantry/plugin";
import { answerAsk, putAsk } from "./asks.js";
import { instructionsOf, leaseHeadOf, newestOfChain } from "./reads.js";
import { rowOfMessage, rowOfSession, rowOfSnapshot } from "./rows.js";
import type { Statements, SqlValue } from "./statements.js";

// All functions here must run in a transaction that holds the write lock; a throw rolls it back.

/** A session's row, with the row of its chain's original. */
interface SessionPosition {
  n: number;
  id: string;
  root: string;
  idx: number;
  chain: number;
  /** Fence of the chain's lease. Null without one; negative after its release. */
  fence: number | null;
}

/** Returns `n` of the new row. */
export function createSession(
  db: Statements,
  { session, messages = [], view = [], run, fence = null }: SessionStart,
): number {
  const { id, alias, chain } = session;
  if (isTaken(db, id)) throw new SessionExistsError(id);
  if (alias !== "" && (alias === id || isTaken(db, alias))) throw new SessionExistsError(alias);
  const original = chain.root === id ? undefined : positionOf(db, chain.root);
  if (chain.root !== id && !original) throw new SessionNotFoundError(chain.root);
  checkFence(chain.root, fence, fence === null ? null : fenceOf(db, chain.root));
  if (original && db.get("SELECT 1 FROM sessions WHERE root = ? AND idx = ?", chain.root, chain.index)) {
    throw new SessionExistsError(id);
  }
  if (original && fence === null) forgetLease(db, chain.root);
  const lastSeq = Math.max(session.lastSeq, lastOf(messages));
  const { lastInsertRowid: n } = db.insert("sessions", rowOfSession({ ...session, lastSeq }));
  addMessages(db, { n, chain: original?.n ?? n }, messages);
  if (view.length > 0) db.run("INSERT INTO views VALUES (?, ?)", n, JSON.stringify(view));
  if (run) putRun(db, chain.root, run, fence);
  return n;
}

export function changeSession(db: Statements, id: string, change: SessionChange): ChangeResult {
  const place = positionOf(db, id);
  if (!place) return releaseUncreated(db, id, change);
  checkFence(place.root, change.fence, place.fence);
  if (change.fence === null && changesMessages(change)) forgetLease(db, place.root);
  if (change.revert) revert(db, place, change.revert);
  if (change.restore !== undefined) restore(db, place, change.restore);
  if (change.revert || change.restore !== undefined) raiseLastSeq(db, place);
  setFields(db, place, change);
  addMessages(db, place, change.add ?? []);
  grow(db, place, change.append ?? []);
  for (const message of change.finish ?? []) finish(db, place, message);
  for (const run of change.runs ?? []) putRun(db, place.root, run, change.fence);
  for (const ask of change.asks ?? []) putAsk(db, place.root, ask);
  const answer = change.answer && answerAsk(db, place.root, change.answer);
  if (change.instruct) instruct(db, place.root, change.instruct);
  const consumedInstructions = (change.consumedInstructions ?? []).filter(
    (instructionId) =>
      db.run("DELETE FROM instructions WHERE id = ? AND root = ?", instructionId, place.root).changes > 0,
  );
  const isReleased = change.release === true && change.fence !== null && releaseLease(db, place.root, change.fence);
  const instructions = isReleased ? instructionsOf(db, place.root) : [];
  return { instructions, consumedInstructions, ...(answer && { answer }) };
}

/** Releases the lease of a session that was never created. Throws `SessionNotFoundError` for any other change. */
function releaseUncreated(db: Statements, id: string, change: SessionChange): ChangeResult {
  const { fence, sync: _, release, ...otherFields } = change;
  const isAlone = Object.values(otherFields).every(
    (value) => value === undefined || (Array.isArray(value) && value.length === 0),
  );
  if (!release || !isAlone || fence === null || !releaseLease(db, id, fence)) throw new SessionNotFoundError(id);
  return { instructions: [], consumedInstructions: [] };
}

function instruct(db: Statements, root: string, instruction: Instruction): void {
  const row = { id: instruction.id, root, instruction: JSON.stringify({ ...instruction, sessionId: root }) };
  db.insert("instructions", row, "ON CONFLICT (id) DO NOTHING");
}

/** Inserts a run, or replaces the chain's run with its id. */
export function putRun(db: Statements, root: string, run: RunRecord, fence: number | null): void {
  const { id, idempotencyKey, state, startedAt } = run;
  if (idempotencyKey !== "" && db.get("SELECT 1 FROM runs WHERE key = ? AND key <> '' AND id <> ?", idempotencyKey, id))
    throw new RunKeyTakenError(idempotencyKey);
  const record = JSON.stringify({ ...run, sessionId: root });
  const row = { root, key: idempotencyKey, state, started_at: startedAt, fence, record };
  const storedRun = db.get<typeof row>("SELECT root, key, state, started_at FROM runs WHERE id = ?", id);
  if (storedRun && storedRun.root !== root) throw new RunKeyTakenError(idempotencyKey);
  // SQLite writes an index for each named column, changed or not.
  if (!storedRun) db.insert("runs", { id, ...row });
  else if (storedRun.key !== idempotencyKey || storedRun.started_at !== startedAt) db.update("runs", "id", id, row);
  else db.update("runs", "id", id, storedRun.state === state ? { fence, record } : { state, fence, record });
}

export function deleteChains(db: Statements, ids: readonly string[]): void {
  for (const id of ids) {
    const place = positionOf(db, id);
    if (!place) continue;
    db.run("DELETE FROM pieces WHERE message IN (SELECT n FROM messages WHERE chain = ?)", place.chain);
    db.run("DELETE FROM messages WHERE chain = ?", place.chain);
    db.run("DELETE FROM snapshots WHERE chain = ?", place.chain);
    db.run("DELETE FROM views WHERE session IN (SELECT n FROM sessions WHERE root = ?)", place.root);
    db.run("DELETE FROM leases WHERE root = ?", place.root);
    for (const table of ["runs", "asks", "instructions"]) db.run(`DELETE FROM ${table} WHERE root = ?`, place.root);
    db.run("DELETE FROM sessions WHERE root = ?", place.root);
  }
}

export function takeLease(
  db: Statements,
  rootId: string,
  holder: LeaseHolder,
  ttlMs: number,
  { fenceToReplace, head: headOptions }: LeaseOptions = {},
): AcquiredLease | LeaseConflict {
  const now = Date.now();
  const place = positionOf(db, rootId);
  const root = place?.root ?? rootId;
  const held =
    place?.fence === null
      ? undefined
      : db.get<{ fence: number; holder_id: string; holder: string; expires_at: number }>(
          "SELECT fence, holder_id, holder, expires_at FROM leases WHERE root = ?",
          root,
        );
  const isOwnLease = held?.holder_id === holder.id;
  if (held && !isOwnLease && held.expires_at > now && held.fence !== fenceToReplace) {
    const rival = JSON.parse(held.holder) as LeaseHolder;
    return {
      heldBy: { rootId: root, holder: rival, fence: held.fence, expiresAt: new Date(held.expires_at).toISOString() },
    };
  }
  const fence = held && isOwnLease ? held.fence : nextFence(db);
  const expires = now + ttlMs;
  const sql = "INSERT OR REPLACE INTO leases (root, fence, holder_id, holder, expires_at) VALUES (?, ?, ?, ?, ?)";
  db.run(sql, root, fence, holder.id, JSON.stringify(holder), expires);
  const previous = held && !isOwnLease ? Math.abs(held.fence) : undefined;
  const isKnown = headOptions?.cachedFence !== undefined && headOptions.cachedFence === previous;
  const head = headOptions && place && leaseHeadOf(db, root, { messages: headOptions.messages && !isKnown });
  return {
    rootId: root,
    holder: { ...holder },
    fence,
    expiresAt: new Date(expires).toISOString(),
    ...(previous !== undefined && { previous }),
    ...(head && { head }),
  };
}

/**
 * Returns whether the lease was held. The row stays with a negative fence, so that the next lease can return it as
 * `previous`.
 */
function releaseLease(db: Statements, root: string, fence: number): boolean {
  const sql =
    "UPDATE leases SET fence = -fence, holder_id = '', holder = '', expires_at = 0 WHERE root = ? AND fence = ?";
  return db.run(sql, root, fence).changes > 0;
}

/** Removes a released fence after messages changed without a lease: its holder's copy may be outdated. */
function forgetLease(db: Statements, root: string): void {
  db.run("DELETE FROM leases WHERE root = ? AND fence < 0", root);
}

function changesMessages({ add = [], append = [], finish = [], revert, restore }: SessionChange): boolean {
  return add.length + append.length + finish.length > 0 || revert !== undefined || restore !== undefined;
}

function nextFence(db: Statements): number {
  return db.get<{ last: number }>("UPDATE fence SET last = last + 1 RETURNING last")?.last ?? 0;
}

function positionOf(db: Statements, id: string): SessionPosition | undefined {
  return db.get<SessionPosition>(
    `SELECT s.n, s.id, s.root, s.idx, o.n AS chain, l.fence FROM sessions s JOIN sessions o ON o.id = s.root
     LEFT JOIN leases l ON l.root = s.root WHERE s.id = ?`,
    id,
  );
}

function isTaken(db: Statements, id: string): boolean {
  const sql = "SELECT 1 FROM sessions WHERE id = ? UNION ALL SELECT 1 FROM sessions WHERE alias = ? AND alias <> ''";
  return db.get(sql, id, id) !== undefined;
}

function fenceOf(db: Statements, root: string): number | null {
  return db.get<{ fence: number }>("SELECT fence FROM leases WHERE root = ?", root)?.fence ?? null;
}

function checkFence(root: string, requiredFence: number | null, held: number | null): void {
  if (requiredFence !== null && requiredFence !== held) throw new LeaseLostError(root);
}

function revert(db: Statements, place: SessionPosition, snapshot: Snapshot): void {
  db.run(
    "UPDATE messages SET cut = ? WHERE chain = ? AND seq > ? AND cut = ''",
    snapshot.id,
    place.chain,
    snapshot.after,
  );
  db.run("UPDATE sessions SET cut = ? WHERE root = ? AND idx > ? AND cut = ''", snapshot.id, place.root, place.idx);
  db.insert("snapshots", { chain: place.chain, ...rowOfSnapshot(snapshot) });
}

function restore(db: Statements, place: SessionPosition, snapshotId: string): void {
  const { changes } = db.run("DELETE FROM snapshots WHERE chain = ? AND id = ?", place.chain, snapshotId);
  if (changes === 0) throw new PointNotFoundError("snapshot");
  db.run("UPDATE messages SET cut = '' WHERE chain = ? AND cut = ? AND cut <> ''", place.chain, snapshotId);
  db.run("UPDATE sessions SET cut = '' WHERE root = ? AND cut = ?", place.root, snapshotId);
}

function raiseLastSeq(db: Statements, place: SessionPosition): void {
  const newest = newestOfChain(db, place.root);
  if (!newest) return;
  db.run(
    "UPDATE sessions SET last_seq = max(last_seq, coalesce((SELECT max(seq) FROM messages WHERE chain = ?), 0)) WHERE n = ?",
    place.chain,
    newest.n,
  );
}

/** Columns that a change may set, in the order of the values in `setFields`. */
const FIELDS = [
  "title = ?",
  "titled = ?",
  "provider = ?",
  "model = ?",
  "reasoning_effort = ?",
  "mode = ?",
  "leave = ?",
  "cuts = ?",
  "project_dir = ?",
  "updated_at = max(updated_at, ?)",
  "prompt_tokens = prompt_tokens + ?",
  "completion_tokens = completion_tokens + ?",
  "total_tokens = total_tokens + ?",
  "cost = cost + ?",
  "last_seq = CASE n WHEN ? THEN max(last_seq, ?) ELSE last_seq END",
] as const;
/** Statements by the bit mask of their fields, each built once. */
const UPDATES = new Map<number, string>();

function updateOf(fields: number): string {
  let sql = UPDATES.get(fields);
  if (sql === undefined) {
    const named = FIELDS.filter((_, at) => (fields & (1 << at)) !== 0);
    sql = `UPDATE sessions SET ${named.join(", ")} WHERE n IN (?, ?)`;
    UPDATES.set(fields, sql);
  }
  return sql;
}

/** One statement with only the changed columns, because SQLite writes an index for each named column. */
function setFields(db: Statements, place: SessionPosition, { set = {}, usage, add = [] }: SessionChange): void {
  const {
    title,
    hasFinalTitle,
    provider,
    model,
    reasoningEffort,
    mode,
    permissionGrants,
    rewinds,
    projectDir,
    updatedAt,
  } = set;
  const last = lastOf(add);
  const values: SqlValue[] = [];
  let fields = 0;
  [
    title,
    hasFinalTitle === undefined ? undefined : Number(hasFinalTitle),
    provider,
    model,
    reasoningEffort,
    mode,
    permissionGrants && JSON.stringify(permissionGrants),
    rewinds && JSON.stringify(rewinds),
    projectDir,
    updatedAt,
    usage?.promptTokens,
    usage?.completionTokens,
    usage?.totalTokens,
    usage?.cost,
    last > 0 ? place.n : undefined,
  ].forEach((value, at) => {
    if (value === undefined) return;
    fields |= 1 << at;
    values.push(value);
  });
  if (fields === 0) return;
  if (last > 0) values.push(last);
  db.run(updateOf(fields), ...values, place.n, place.chain);
}

/** Greatest `seq`; 0 without messages. */
function lastOf(messages: readonly Message[]): number {
  return messages.reduce((last, { seq }) => Math.max(last, seq), 0);
}

/** The caller updates the session's last `seq`. */
function addMessages(db: Statements, place: Pick<SessionPosition, "n" | "chain">, messages: readonly Message[]): void {
  for (const message of messages) {
    const row = { chain: place.chain, session: place.n, seq: message.seq, ...rowOfMessage(message) };
    const { changes } = db.insert("messages", row, "ON CONFLICT (chain, seq) DO NOTHING");
    if (changes === 0) throw new SeqTakenError(message.seq);
  }
}

function grow(db: Statements, place: SessionPosition, deltas: readonly PartDelta[]): void {
  const rows = new Map<string, number>();
  for (const { messageId, part, type, text } of deltas) {
    const row = rows.get(messageId) ?? growing(db, place, messageId);
    rows.set(messageId, row);
    db.run("INSERT INTO pieces (message, part, type, text) VALUES (?, ?, ?, ?)", row, part, type, JSON.stringify(text));
  }
}

function finish(db: Statements, place: SessionPosition, message: Message): void {
  const row = growing(db, place, message.id);
  db.update("messages", "n", row, { ...rowOfMessage(message), finished: 1 });
  db.run("DELETE FROM pieces WHERE message = ?", row);
}

function growing(db: Statements, place: SessionPosition, messageId: string): number {
  const row = db.get<{ n: number }>(
    "SELECT n FROM messages WHERE chain = ? AND id = ? AND finished = 0",
    place.chain,
    messageId,
  );
  if (!row) throw new PointNotFoundError("message");
  return row.n;
}
