import { RunKeyTakenError } from "gantry";
import type { ChainData } from "gantry/plugin";
import { listAsks, putAsk } from "./asks.js";
import { listRuns, viewOf, wholeMessage } from "./reads.js";
import { rowOfSnapshot, sessionOf, snapshotOf, type MessageRow, type SessionRow, type SnapshotRow } from "./rows.js";
import type { Statements } from "./statements.js";
import { createSession, putRun } from "./writes.js";

/** Complete data of a chain, read at one moment. */
export function dumpChain(db: Statements, id: string): ChainData | undefined {
  return db.atOnce(() => {
    const sessions = db.all<SessionRow & { cut: string }>(
      "SELECT * FROM sessions WHERE root = (SELECT root FROM sessions WHERE id = ?) ORDER BY idx",
      id,
    );
    const [original] = sessions;
    if (!original) return undefined;
    return {
      sessions: sessions.map((row) => ({
        session: sessionOf(row),
        hiddenBy: row.cut,
        view: viewOf(db, row.n),
        messages: db
          .all<MessageRow & { cut: string }>("SELECT * FROM messages WHERE session = ? ORDER BY seq", row.n)
          .map((message) => ({ message: wholeMessage(db, message, row.id), hiddenBy: message.cut })),
      })),
      snapshots: db
        .all<SnapshotRow>("SELECT id, after, created_at FROM snapshots WHERE chain = ? ORDER BY n", original.n)
        .map(snapshotOf),
      runs: listRuns(db, { sessionId: original.id, limit: Infinity }).map(({ run }) => run),
      asks: listAsks(db, { sessionId: original.id, limit: Infinity }),
    };
  });
}

/** Must run in a transaction that holds the write lock; a throw rolls it back. */
export function loadChain(db: Statements, { sessions, snapshots, runs, asks }: ChainData): void {
  let chain = 0;
  for (const { session, hiddenBy: cut, view, messages } of sessions) {
    const n = createSession(db, { session, messages: messages.map(({ message }) => message), view });
    chain ||= n;
    if (cut !== "") db.run("UPDATE sessions SET cut = ? WHERE n = ?", cut, n);
    for (const { message, hiddenBy: hidden } of messages)
      if (hidden !== "") db.run("UPDATE messages SET cut = ? WHERE chain = ? AND seq = ?", hidden, chain, message.seq);
  }
  for (const snapshot of snapshots) db.insert("snapshots", { chain, ...rowOfSnapshot(snapshot) });
  for (const run of runs) {
    if (db.get("SELECT 1 FROM runs WHERE id = ?", run.id)) throw new RunKeyTakenError(run.idempotencyKey);
    putRun(db, sessions[0]?.session.id ?? "", run, null);
  }
  for (const ask of asks) putAsk(db, sessions[0]?.session.id ?? "", ask);
}
