import { currentRun } from "gantry/plugin";
import { SessionExistsError, type Ask, type RunRecord } from "gantry";
import type { AnswerResult, AskQuery, SessionChange } from "gantry/plugin";
import { listVisibleSources, toSqlLimit } from "./reads.js";
import type { SqlValue, Statements } from "./statements.js";

/**
 * Inserts an ask, or replaces the stored ask of the chain unless it was answered. Throws for an ask of another chain.
 */
export function putAsk(db: Statements, root: string, ask: Ask): void {
  const { id, state, createdAt } = ask;
  const storedAsk = db.get<{ root: string; state: string }>("SELECT root, state FROM asks WHERE id = ?", id);
  if (storedAsk && storedAsk.root !== root) throw new SessionExistsError(id);
  const row = { root, state, created_at: createdAt, ask: JSON.stringify({ ...ask, sessionId: root }) };
  if (!storedAsk) db.insert("asks", { id, ...row });
  else if (storedAsk.state !== "answered") db.update("asks", "id", id, row);
}

/** Answers an ask, unless it is no longer open. Returns undefined if the chain has no such ask. */
export function answerAsk(
  db: Statements,
  root: string,
  { askId, ...answerFields }: NonNullable<SessionChange["answer"]>,
): AnswerResult | undefined {
  const row = db.get<{ ask: string }>("SELECT ask FROM asks WHERE id = ? AND root = ?", askId, root);
  if (!row) return undefined;
  const ask = parseAsk(row);
  if (ask.state !== "open") return { ask, isAccepted: false };
  const answeredAsk: Ask = { ...ask, ...answerFields, state: "answered" };
  putAsk(db, root, answeredAsk);
  return { ask: answeredAsk, isAccepted: true };
}

/** Builds the statement of `listAsks` and its values. */
export function buildAsksStatement(query: AskQuery): { sql: string; values: SqlValue[] } {
  const { id, sessionId, open = false, before, limit } = query;
  const conditions = [
    ...(id === undefined ? [] : ["id = ?"]),
    ...(sessionId === undefined ? [] : ["root = (SELECT root FROM sessions WHERE id = ?)"]),
    ...(open ? ["state = 'open'"] : []),
    ...(before === undefined ? [] : ["(created_at, id) < (?, ?)"]),
  ];
  const values = [id, sessionId, before?.createdAt, before?.id].filter((value) => value !== undefined);
  const sources = listVisibleSources(query, open ? "asks_of_reader_state" : "asks_of_reader");
  const selects = sources.map(({ sql }) =>
    [`SELECT ask, created_at, id FROM asks ${sql}`, ...conditions].join(" AND "),
  );
  return {
    sql: `${selects.join(" UNION ALL ")} ORDER BY created_at DESC, id DESC LIMIT ?`,
    values: [...sources.flatMap(({ readers }) => [...readers, ...values]), toSqlLimit(limit)],
  };
}

export function listAsks(db: Statements, query: AskQuery): Ask[] {
  const { sql, values } = buildAsksStatement(query);
  return db.all<{ ask: string }>(sql, ...values).map(parseAsk);
}

const parseAsk = ({ ask }: { ask: string }): Ask => JSON.parse(ask) as Ask;

/** Removes the keys, fingerprints and answers of ended runs that started before a timestamp (ISO 8601). */
export function forgetKeys(db: Statements, startedBefore: string): void {
  const rows = db.all<{ id: string; record: string }>(
    `SELECT id, record FROM runs WHERE key <> '' AND started_at < ? AND state NOT IN ('queued', 'running', 'waiting')`,
    startedBefore,
  );
  for (const { id, record } of rows) {
    const run: RunRecord = {
      ...currentRun(JSON.parse(record) as RunRecord),
      idempotencyKey: "",
      fingerprint: "",
      answer: null,
    };
    db.update("runs", "id", id, { key: "", record: JSON.stringify(run) });
  }
}
