import { SessionExistsError } from "gantry";
import type { Ask, RunRecord } from "gantry";
import type { AskAnswered, AskQuery } from "gantry/plugin";
import { limitOf } from "./reads.js";
import type { Statements } from "./statements.js";

/** A new ask, or in place of the one of the chain that has its id and was not answered. */
export function putAsk(db: Statements, root: string, ask: Ask): void {
  const { id, state, createdAt } = ask;
  const known = db.get<{ root: string; state: string }>("SELECT root, state FROM asks WHERE id = ?", id);
  if (known && known.root !== root) throw new SessionExistsError(id);
  const row = { root, state, created_at: createdAt, ask: JSON.stringify({ ...ask, sessionId: root }) };
  if (!known) db.insert("asks", { id, ...row });
  else if (known.state !== "answered") db.update("asks", "id", id, row);
}

export function answerAsk(
  db: Statements,
  id: string,
  answered: AskAnswered,
): { ask: Ask; counts: boolean } | undefined {
  const row = db.get<{ root: string; ask: string }>("SELECT root, ask FROM asks WHERE id = ?", id);
  if (!row) return undefined;
  const ask = JSON.parse(row.ask) as Ask;
  if (ask.state !== "open") return { ask, counts: false };
  putAsk(db, row.root, { ...ask, ...answered, state: "answered" });
  return { ask: { ...ask, ...answered, state: "answered" }, counts: true };
}

export function listAsks(db: Statements, { sessionId, open = false, before, limit }: AskQuery): Ask[] {
  const where = [
    ...(sessionId === undefined ? [] : ["root = (SELECT root FROM sessions WHERE id = ?)"]),
    ...(open ? ["state = 'open'"] : []),
    ...(before === undefined ? [] : ["(created_at, id) < (?, ?)"]),
  ];
  const values = [sessionId, before?.createdAt, before?.id, limitOf(limit)].filter((value) => value !== undefined);
  const sql = `SELECT ask FROM asks WHERE ${["1", ...where].join(" AND ")} ORDER BY created_at DESC, id DESC LIMIT ?`;
  return db.all<{ ask: string }>(sql, ...values).map(askOf);
}

export function getAsk(db: Statements, id: string): Ask | undefined {
  const row = db.get<{ ask: string }>("SELECT ask FROM asks WHERE id = ?", id);
  return row && askOf(row);
}

const askOf = ({ ask }: { ask: string }): Ask => JSON.parse(ask) as Ask;

/** What names runs that began before a time, and have ended. */
export function forgetKeys(db: Statements, before: string): void {
  const rows = db.all<{ id: string; record: string }>(
    `SELECT id, record FROM runs WHERE key <> '' AND started_at < ? AND state NOT IN ('queued', 'running', 'waiting')`,
    before,
  );
  for (const { id, record } of rows) {
    const run: RunRecord = { ...(JSON.parse(record) as RunRecord), key: "", fingerprint: "", answer: null };
    db.update("runs", "id", id, { key: "", record: JSON.stringify(run) });
  }
}
