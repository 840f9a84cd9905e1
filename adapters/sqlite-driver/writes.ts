import { LeaseLostError, PointNotFoundError, RunKeyTakenError, SessionExistsError, SessionNotFoundError } from "gantry";
import { SeqTakenError } from "gantry/plugin";
import type { Message, RunRecord } from "gantry";
import type { AcquiredLease, ChangeResult, Instruction, LeaseConflict, LeaseHolder, LeaseOptions } from "gantry/plugin";
import type { PartDelta, SessionChange, SessionStart, Snapshot } from "gantry/plugin";
import { answerAsk, putAsk } from "./asks.js";
import { findNewestSession, findPosition, readInstructions, readLeaseHead, type SessionPosition } from "./reads.js";
import { toMessageRow, toSessionRow, toSnapshotRow } from "./rows.js";
import type { Statements, SqlValue } from "./statements.js";

// All functions of this file must run in a transaction that holds the write lock. A throw rolls the transaction back.

/** Creates a session. Returns the row number `n`. `fence`: required fence of the chain's lease; null: no check. */
export function createSession(
  db: Statements,
  { session, messages = [], view = [], run, fence = null }: SessionStart,
): number {
  const { id, alias, chain } = session;
  if (isIdTaken(db, id)) throw new SessionExistsError(id);
  if (alias !== "" && (alias === id || isIdTaken(db, alias))) throw new SessionExistsError(alias);
  const original = chain.root === id ? undefined : findPosition(db, chain.root);
  if (chain.root !== id && !original) throw new SessionNotFoundError(chain.root);
  checkFence(chain.root, fence, fence === null ? null : readFence(db, chain.root));
  if (original && db.get("SELECT 1 FROM sessions WHERE root = ? AND idx = ?", chain.root, chain.index)) {
    throw new SessionExistsError(id);
  }
  if (original && fence === null) deleteReleasedLease(db, chain.root);
  const lastSeq = Math.max(session.lastSeq, findGreatestSeq(messages));
  const { lastInsertRowid: n } = db.insert("sessions", toSessionRow({ ...session, lastSeq }));
  addMessages(db, { n, chain: original?.n ?? n }, messages);
  if (view.length > 0) db.run("INSERT INTO views VALUES (?, ?)", n, JSON.stringify(view));
  if (run) putRun(db, chain.root, run, fence);
  return n;
}

export function changeSession(db: Statements, id: string, change: SessionChange): ChangeResult {
  const position = findPosition(db, id);
  if (!position) return releaseUncreatedSession(db, id, change);
  checkFence(position.root, change.fence, position.fence);
  if (change.fence === null && changesMessages(change)) deleteReleasedLease(db, position.root);
  if (change.revert) applyRevert(db, position, change.revert);
  if (change.restore !== undefined) applyRestore(db, position, change.restore);
  if (change.revert || change.restore !== undefined) raiseLastSeq(db, position);
  setFields(db, position, change);
  addMessages(db, position, change.add ?? []);
  appendDeltas(db, position, change.append ?? []);
  for (const message of change.finish ?? []) finishMessage(db, position, message);
  for (const run of change.runs ?? []) putRun(db, position.root, run, change.fence);
  for (const ask of change.asks ?? []) putAsk(db, position.root, ask);
  const answer = change.answer && answerAsk(db, position.root, change.answer);
  if (change.instruct) insertInstruction(db, position.root, change.instruct);
  const consumedInstructions = (change.consumedInstructions ?? []).filter(
    (instructionId) =>
      db.run("DELETE FROM instructions WHERE id = ? AND root = ?", instructionId, position.root).changes > 0,
  );
  const isReleased = change.release === true && change.fence !== null && releaseLease(db, position.root, change.fence);
  const instructions = isReleased ? readInstructions(db, position.root) : [];
  return { instructions, consumedInstructions, ...(answer && { answer }) };
}

/** Releases the lease of a session that was never created. Throws `SessionNotFoundError` for any other change. */
function releaseUncreatedSession(db: Statements, id: string, change: SessionChange): ChangeResult {
  const { fence, sync: _, release, ...otherFields } = change;
  const isReleaseOnly = Object.values(otherFields).every(
    (value) => value === undefined || (Array.isArray(value) && value.length === 0),
  );
  if (!release || !isReleaseOnly || fence === null || !releaseLease(db, id, fence)) throw new SessionNotFoundError(id);
  return { instructions: [], consumedInstructions: [] };
}

function insertInstruction(db: Statements, root: string, instruction: Instruction): void {
  const row = { id: instruction.id, root, instruction: JSON.stringify({ ...instruction, sessionId: root }) };
  db.insert("instructions", row, "ON CONFLICT (id) DO NOTHING");
}

/** Inserts a run, or replaces the stored run of the chain. Throws `RunKeyTakenError` if another run has the key. */
export function putRun(db: Statements, root: string, run: RunRecord, fence: number | null): void {
  const { id, idempotencyKey, state, startedAt, user = "" } = run;
  if (idempotencyKey !== "" && db.get("SELECT 1 FROM runs WHERE key = ? AND key <> '' AND id <> ?", idempotencyKey, id))
    throw new RunKeyTakenError(idempotencyKey);
  const record = JSON.stringify({ ...run, sessionId: root });
  const row = { root, key: idempotencyKey, state, started_at: startedAt, started_by: user, fence, record };
  const storedRun = db.get<typeof row>("SELECT root, key, state, started_at FROM runs WHERE id = ?", id);
  if (storedRun && storedRun.root !== root) throw new RunKeyTakenError(idempotencyKey);
  // SQLite writes an index for each named column, changed or not.
  if (!storedRun) db.insert("runs", { id, ...row });
  else if (storedRun.key !== idempotencyKey || storedRun.started_at !== startedAt) db.update("runs", "id", id, row);
  else db.update("runs", "id", id, storedRun.state === state ? { fence, record } : { state, fence, record });
}

export function deleteChains(db: Statements, ids: readonly string[]): void {
  for (const id of ids) {
    const position = findPosition(db, id);
    if (!position) continue;
    db.run("DELETE FROM pieces WHERE message IN (SELECT n FROM messages WHERE chain = ?)", position.chain);
    db.run("DELETE FROM messages WHERE chain = ?", position.chain);
    db.run("DELETE FROM snapshots WHERE chain = ?", position.chain);
    db.run("DELETE FROM views WHERE session IN (SELECT n FROM sessions WHERE root = ?)", position.root);
    db.run("DELETE FROM leases WHERE root = ?", position.root);
    for (const table of ["runs", "asks", "instructions"]) db.run(`DELETE FROM ${table} WHERE root = ?`, position.root);
    db.run("DELETE FROM sessions WHERE root = ?", position.root);
  }
}

export function takeLease(
  db: Statements,
  rootId: string,
  holder: LeaseHolder,
  ttlMs: number,
  { fenceToReplace, head: headOptions }: LeaseOptions = {},
): AcquiredLease | LeaseConflict {
  const now = Date.now() + db.clockOffsetMs;
  const position = findPosition(db, rootId);
  const root = position?.root ?? rootId;
  const lease =
    position?.fence === null
      ? undefined
      : db.get<{ fence: number; holder_id: string; holder: string; expires_at: number }>(
          "SELECT fence, holder_id, holder, expires_at FROM leases WHERE root = ?",
          root,
        );
  const isOwnLease = lease?.holder_id === holder.id;
  if (lease && !isOwnLease && lease.expires_at > now && lease.fence !== fenceToReplace) {
    const otherHolder = JSON.parse(lease.holder) as LeaseHolder;
    return {
      heldBy: {
        rootId: root,
        holder: otherHolder,
        fence: lease.fence,
        expiresAt: new Date(lease.expires_at).toISOString(),
      },
    };
  }
  const fence = lease && isOwnLease ? lease.fence : createFence(db);
  const expiresAtMs = now + ttlMs;
  const sql = "INSERT OR REPLACE INTO leases (root, fence, holder_id, holder, expires_at) VALUES (?, ?, ?, ?, ?)";
  db.run(sql, root, fence, holder.id, JSON.stringify(holder), expiresAtMs);
  const previousFence = lease && !isOwnLease ? Math.abs(lease.fence) : undefined;
  const isCached = headOptions?.cachedFence !== undefined && headOptions.cachedFence === previousFence;
  const head = headOptions && position && readLeaseHead(db, root, { messages: headOptions.messages && !isCached });
  return {
    rootId: root,
    holder: { ...holder },
    fence,
    expiresAt: new Date(expiresAtMs).toISOString(),
    ...(previousFence !== undefined && { previous: previousFence }),
    ...(head && { head }),
  };
}

/**
 * Releases a lease. Returns whether the lease existed. The row stays with a negative fence, so that the next lease can
 * return that fence as `previous`.
 */
function releaseLease(db: Statements, root: string, fence: number): boolean {
  const sql =
    "UPDATE leases SET fence = -fence, holder_id = '', holder = '', expires_at = 0 WHERE root = ? AND fence = ?";
  return db.run(sql, root, fence).changes > 0;
}

/** Deletes a released lease after a change of messages without a lease: the last holder's copy may be outdated. */
function deleteReleasedLease(db: Statements, root: string): void {
  db.run("DELETE FROM leases WHERE root = ? AND fence < 0", root);
}

function createFence(db: Statements): number {
  return db.get<{ last: number }>("UPDATE fence SET last = last + 1 RETURNING last")?.last ?? 0;
}

function readFence(db: Statements, root: string): number | null {
  return db.get<{ fence: number }>("SELECT fence FROM leases WHERE root = ?", root)?.fence ?? null;
}

function checkFence(root: string, requiredFence: number | null, currentFence: number | null): void {
  if (requiredFence !== null && requiredFence !== currentFence) throw new LeaseLostError(root);
}

function changesMessages({ add = [], append = [], finish = [], revert, restore }: SessionChange): boolean {
  return add.length + append.length + finish.length > 0 || revert !== undefined || restore !== undefined;
}

function isIdTaken(db: Statements, id: string): boolean {
  const sql = "SELECT 1 FROM sessions WHERE id = ? UNION ALL SELECT 1 FROM sessions WHERE alias = ? AND alias <> ''";
  return db.get(sql, id, id) !== undefined;
}

function applyRevert(db: Statements, position: SessionPosition, snapshot: Snapshot): void {
  db.run(
    "UPDATE messages SET cut = ? WHERE chain = ? AND seq > ? AND cut = ''",
    snapshot.id,
    position.chain,
    snapshot.after,
  );
  db.run(
    "UPDATE sessions SET cut = ? WHERE root = ? AND idx > ? AND cut = ''",
    snapshot.id,
    position.root,
    position.idx,
  );
  db.insert("snapshots", { chain: position.chain, ...toSnapshotRow(snapshot) });
}

function applyRestore(db: Statements, position: SessionPosition, snapshotId: string): void {
  const { changes } = db.run("DELETE FROM snapshots WHERE chain = ? AND id = ?", position.chain, snapshotId);
  if (changes === 0) throw new PointNotFoundError("snapshot");
  db.run("UPDATE messages SET cut = '' WHERE chain = ? AND cut = ? AND cut <> ''", position.chain, snapshotId);
  db.run("UPDATE sessions SET cut = '' WHERE root = ? AND cut = ?", position.root, snapshotId);
}

function raiseLastSeq(db: Statements, position: SessionPosition): void {
  const newestSession = findNewestSession(db, position.root);
  if (!newestSession) return;
  db.run(
    "UPDATE sessions SET last_seq = max(last_seq, coalesce((SELECT max(seq) FROM messages WHERE chain = ?), 0)) WHERE n = ?",
    position.chain,
    newestSession.n,
  );
}

/** Sets only the changed columns, because SQLite writes an index for each named column. */
function setFields(db: Statements, position: SessionPosition, { set = {}, usage, add = [] }: SessionChange): void {
  const lastAddedSeq = findGreatestSeq(add);
  const assignments: readonly (readonly [sql: string, ...values: (SqlValue | undefined)[]])[] = [
    ["title = ?", set.title],
    ["titled = ?", set.hasFinalTitle === undefined ? undefined : Number(set.hasFinalTitle)],
    ["provider = ?", set.provider],
    ["model = ?", set.model],
    ["reasoning_effort = ?", set.reasoningEffort],
    ["mode = ?", set.mode],
    ["leave = ?", set.permissionGrants && JSON.stringify(set.permissionGrants)],
    ["cuts = ?", set.rewinds && JSON.stringify(set.rewinds)],
    ["project_dir = ?", set.projectDir],
    ["archived = ?", set.archived === undefined ? undefined : Number(set.archived)],
    ["shared = ?", set.shared === undefined ? undefined : Number(set.shared)],
    ["updated_at = max(updated_at, ?)", set.updatedAt],
    ["prompt_tokens = prompt_tokens + ?", usage?.promptTokens],
    ["completion_tokens = completion_tokens + ?", usage?.completionTokens],
    ["total_tokens = total_tokens + ?", usage?.totalTokens],
    ["cost = cost + ?", usage?.cost],
    [
      "last_seq = CASE n WHEN ? THEN max(last_seq, ?) ELSE last_seq END",
      position.n,
      lastAddedSeq > 0 ? lastAddedSeq : undefined,
    ],
  ];
  const sqls: string[] = [];
  const values: SqlValue[] = [];
  for (const [sql, ...assignedValues] of assignments) {
    const definedValues = assignedValues.filter((value) => value !== undefined);
    if (definedValues.length < assignedValues.length) continue;
    sqls.push(sql);
    values.push(...definedValues);
  }
  if (sqls.length === 0) return;
  db.run(`UPDATE sessions SET ${sqls.join(", ")} WHERE n IN (?, ?)`, ...values, position.n, position.chain);
}

/** Returns the greatest `seq`; 0 without messages. */
function findGreatestSeq(messages: readonly Message[]): number {
  return messages.reduce((last, { seq }) => Math.max(last, seq), 0);
}

/** Inserts messages. The caller updates `last_seq` of the session. */
function addMessages(
  db: Statements,
  position: Pick<SessionPosition, "n" | "chain">,
  messages: readonly Message[],
): void {
  for (const message of messages) {
    const row = { chain: position.chain, session: position.n, seq: message.seq, ...toMessageRow(message) };
    const { changes } = db.insert("messages", row, "ON CONFLICT (chain, seq) DO NOTHING");
    if (changes === 0) throw new SeqTakenError(message.seq);
  }
}

function appendDeltas(db: Statements, position: SessionPosition, deltas: readonly PartDelta[]): void {
  const rowNumbersById = new Map<string, number>();
  for (const { messageId, part, type, text } of deltas) {
    const n = rowNumbersById.get(messageId) ?? findUnfinishedMessage(db, position, messageId);
    rowNumbersById.set(messageId, n);
    db.run("INSERT INTO pieces (message, part, type, text) VALUES (?, ?, ?, ?)", n, part, type, JSON.stringify(text));
  }
}

function finishMessage(db: Statements, position: SessionPosition, message: Message): void {
  const n = findUnfinishedMessage(db, position, message.id);
  db.update("messages", "n", n, { ...toMessageRow(message), finished: 1 });
  db.run("DELETE FROM pieces WHERE message = ?", n);
}

/** Returns the row number `n`. Throws if no unfinished message has this id. */
function findUnfinishedMessage(db: Statements, position: SessionPosition, messageId: string): number {
  const row = db.get<{ n: number }>(
    "SELECT n FROM messages WHERE chain = ? AND id = ? AND finished = 0",
    position.chain,
    messageId,
  );
  if (!row) throw new PointNotFoundError("message");
  return row.n;
}
