import {
  LeaseLostError,
  PointNotFoundError,
  RunKeyTakenError,
  SeqTakenError,
  SessionExistsError,
  SessionNotFoundError,
} from "gantry";
import type { Holder, Lease, Message, PartDelta, RunRecord, SessionChange, SessionStart, Snapshot } from "gantry";
import { newestOfChain } from "./reads.js";
import { rowOfMessage, rowOfSession, rowOfSnapshot } from "./rows.js";
import type { Statements } from "./statements.js";

// Everything here runs inside a transaction that holds the write lock; a throw undoes all of it.

/** A session and the row of its chain's original. */
interface Place {
  n: number;
  id: string;
  root: string;
  idx: number;
  chain: number;
}

/** Tells the session's row. */
export function createSession(
  db: Statements,
  { session, messages = [], view = [], run, fence = null }: SessionStart,
): number {
  const { id, alias, chain } = session;
  if (isTaken(db, id)) throw new SessionExistsError(id);
  if (alias !== "" && (alias === id || isTaken(db, alias))) throw new SessionExistsError(alias);
  const original = chain.root === id ? undefined : placeOf(db, chain.root);
  if (chain.root !== id && !original) throw new SessionNotFoundError(chain.root);
  checkFence(db, chain.root, fence);
  if (db.get("SELECT 1 FROM sessions WHERE root = ? AND idx = ?", chain.root, chain.index)) {
    throw new SessionExistsError(id);
  }
  const { lastInsertRowid: n } = db.insert("sessions", rowOfSession(session));
  addMessages(db, { n, chain: original?.n ?? n }, messages);
  if (view.length > 0) db.run("INSERT INTO views VALUES (?, ?)", n, JSON.stringify(view));
  if (run) putRun(db, chain.root, run, fence);
  return n;
}

export function changeSession(db: Statements, id: string, change: SessionChange): void {
  const place = placeOf(db, id);
  if (!place) throw new SessionNotFoundError(id);
  checkFence(db, place.root, change.fence);
  if (change.cut) cut(db, place, change.cut);
  if (change.restore !== undefined) restore(db, place, change.restore);
  if (change.cut || change.restore !== undefined) raiseLastSeq(db, place);
  setFields(db, place, change);
  addMessages(db, place, change.add ?? []);
  grow(db, place, change.append ?? []);
  for (const message of change.finish ?? []) finish(db, place, message);
  for (const run of change.runs ?? []) putRun(db, place.root, run, change.fence);
}

/** A new run, or in place of the one of the chain that has its id. */
export function putRun(db: Statements, root: string, run: RunRecord, fence: number | null): void {
  const { id, key, state, startedAt } = run;
  if (key !== "" && db.get("SELECT 1 FROM runs WHERE key = ? AND key <> '' AND id <> ?", key, id))
    throw new RunKeyTakenError(key);
  const record = JSON.stringify({ ...run, sessionId: root });
  const { changes } = db.insert(
    "runs",
    { id, root, key, state, started_at: startedAt, fence, record },
    `ON CONFLICT (id) DO UPDATE SET key = excluded.key, state = excluded.state, started_at = excluded.started_at,
       fence = excluded.fence, record = excluded.record WHERE root = excluded.root`,
  );
  if (changes === 0) throw new RunKeyTakenError(key);
}

export function deleteChains(db: Statements, ids: readonly string[]): void {
  for (const id of ids) {
    const place = placeOf(db, id);
    if (!place) continue;
    db.run("DELETE FROM pieces WHERE message IN (SELECT n FROM messages WHERE chain = ?)", place.chain);
    db.run("DELETE FROM messages WHERE chain = ?", place.chain);
    db.run("DELETE FROM snapshots WHERE chain = ?", place.chain);
    db.run("DELETE FROM views WHERE session IN (SELECT n FROM sessions WHERE root = ?)", place.root);
    db.run("DELETE FROM leases WHERE root = ?", place.root);
    db.run("DELETE FROM runs WHERE root = ?", place.root);
    db.run("DELETE FROM sessions WHERE root = ?", place.root);
  }
}

export function takeLease(
  db: Statements,
  rootId: string,
  holder: Holder,
  ttlMs: number,
  replacing: string | undefined,
): Lease | { heldBy: Holder } {
  const root = placeOf(db, rootId)?.root ?? rootId;
  const now = Date.now();
  const held = db.get<{ fence: number; holder_id: string; holder: string; expires_at: number }>(
    "SELECT fence, holder_id, holder, expires_at FROM leases WHERE root = ?",
    root,
  );
  const mine = held?.holder_id === holder.id;
  if (held && !mine && held.expires_at > now && held.holder_id !== replacing) {
    return { heldBy: JSON.parse(held.holder) as Holder };
  }
  const fence = held && mine ? held.fence : nextFence(db);
  const expires = now + ttlMs;
  const sql = "INSERT OR REPLACE INTO leases (root, fence, holder_id, holder, expires_at) VALUES (?, ?, ?, ?, ?)";
  db.run(sql, root, fence, holder.id, JSON.stringify(holder), expires);
  return { rootId: root, holder: { ...holder }, fence, expiresAt: new Date(expires).toISOString() };
}

export function releaseLease(db: Statements, lease: Lease): void {
  db.run("DELETE FROM leases WHERE root = ? AND fence = ?", lease.rootId, lease.fence);
}

function nextFence(db: Statements): number {
  db.run("UPDATE fence SET last = last + 1");
  return db.get<{ last: number }>("SELECT last FROM fence")?.last ?? 0;
}

function placeOf(db: Statements, id: string): Place | undefined {
  return db.get<Place>(
    `SELECT s.n, s.id, s.root, s.idx, o.n AS chain FROM sessions s JOIN sessions o ON o.id = s.root WHERE s.id = ?`,
    id,
  );
}

function isTaken(db: Statements, id: string): boolean {
  return (
    db.get("SELECT 1 FROM sessions WHERE id = ?", id) !== undefined ||
    db.get("SELECT 1 FROM sessions WHERE alias = ? AND alias <> ''", id) !== undefined
  );
}

function checkFence(db: Statements, root: string, fence: number | null): void {
  if (fence === null) return;
  const lease = db.get<{ fence: number }>("SELECT fence FROM leases WHERE root = ?", root);
  if (lease?.fence !== fence) throw new LeaseLostError(root);
}

function cut(db: Statements, place: Place, snapshot: Snapshot): void {
  db.run(
    "UPDATE messages SET cut = ? WHERE chain = ? AND seq > ? AND cut = ''",
    snapshot.id,
    place.chain,
    snapshot.after,
  );
  db.run("UPDATE sessions SET cut = ? WHERE root = ? AND idx > ? AND cut = ''", snapshot.id, place.root, place.idx);
  db.insert("snapshots", { chain: place.chain, ...rowOfSnapshot(snapshot) });
}

function restore(db: Statements, place: Place, snapshotId: string): void {
  const { changes } = db.run("DELETE FROM snapshots WHERE chain = ? AND id = ?", place.chain, snapshotId);
  if (changes === 0) throw new PointNotFoundError("snapshot");
  db.run("UPDATE messages SET cut = '' WHERE chain = ? AND cut = ? AND cut <> ''", place.chain, snapshotId);
  db.run("UPDATE sessions SET cut = '' WHERE root = ? AND cut = ?", place.root, snapshotId);
}

function raiseLastSeq(db: Statements, place: Place): void {
  const newest = newestOfChain(db, place.root);
  if (!newest) return;
  db.run(
    "UPDATE sessions SET last_seq = max(last_seq, coalesce((SELECT max(seq) FROM messages WHERE chain = ?), 0)) WHERE n = ?",
    place.chain,
    newest.n,
  );
}

function setFields(db: Statements, place: Place, { set, usage }: SessionChange): void {
  if (!set && !usage) return;
  const { title, titled, provider, model, reasoningEffort, projectDir, updatedAt } = set ?? {};
  db.run(
    `UPDATE sessions SET
       title = coalesce(?, title), titled = coalesce(?, titled), provider = coalesce(?, provider),
       model = coalesce(?, model), reasoning_effort = coalesce(?, reasoning_effort),
       project_dir = coalesce(?, project_dir), updated_at = max(updated_at, coalesce(?, '')),
       prompt_tokens = prompt_tokens + ?, completion_tokens = completion_tokens + ?,
       total_tokens = total_tokens + ?, cost = cost + ?
     WHERE n IN (?, ?)`,
    title ?? null,
    titled === undefined ? null : Number(titled),
    provider ?? null,
    model ?? null,
    reasoningEffort ?? null,
    projectDir ?? null,
    updatedAt ?? null,
    usage?.promptTokens ?? 0,
    usage?.completionTokens ?? 0,
    usage?.totalTokens ?? 0,
    usage?.cost ?? 0,
    place.n,
    place.chain,
  );
}

function addMessages(db: Statements, place: Pick<Place, "n" | "chain">, messages: readonly Message[]): void {
  let last = 0;
  for (const message of messages) {
    const row = { chain: place.chain, session: place.n, seq: message.seq, ...rowOfMessage(message) };
    const { changes } = db.insert("messages", row, "ON CONFLICT (chain, seq) DO NOTHING");
    if (changes === 0) throw new SeqTakenError(message.seq);
    last = Math.max(last, message.seq);
  }
  if (last > 0) db.run("UPDATE sessions SET last_seq = max(last_seq, ?) WHERE n = ?", last, place.n);
}

function grow(db: Statements, place: Place, deltas: readonly PartDelta[]): void {
  const rows = new Map<string, number>();
  for (const { messageId, part, type, text } of deltas) {
    const row = rows.get(messageId) ?? growing(db, place, messageId);
    rows.set(messageId, row);
    db.run("INSERT INTO pieces (message, part, type, text) VALUES (?, ?, ?, ?)", row, part, type, JSON.stringify(text));
  }
}

function finish(db: Statements, place: Place, message: Message): void {
  const row = growing(db, place, message.id);
  db.update("messages", row, { ...rowOfMessage(message), finished: 1 });
  db.run("DELETE FROM pieces WHERE message = ?", row);
}

function growing(db: Statements, place: Place, messageId: string): number {
  const row = db.get<{ n: number }>(
    "SELECT n FROM messages WHERE chain = ? AND id = ? AND finished = 0",
    place.chain,
    messageId,
  );
  if (!row) throw new PointNotFoundError("message");
  return row.n;
}
