import { RunKeyTakenError } from "gantry";
import type { ChainData } from "gantry/plugin";
import { listAsks, putAsk } from "./asks.js";
import { listRuns, readView, readMessage } from "./reads.js";
import { toSnapshotRow, toSession, toSnapshot, type MessageRow, type SessionRow, type SnapshotRow } from "./rows.js";
import type { Statements } from "./statements.js";
import { createSession, putRun } from "./writes.js";

/** Reads the complete data of a chain in one transaction. Undefined if no session has this id. */
export function dumpChain(db: Statements, id: string): ChainData | undefined {
  return db.readConsistently(() => {
    const sessions = db.all<SessionRow & { cut: string }>(
      "SELECT * FROM sessions WHERE root = (SELECT root FROM sessions WHERE id = ?) ORDER BY idx",
      id,
    );
    const [original] = sessions;
    if (!original) return undefined;
    return {
      sessions: sessions.map((row) => ({
        session: toSession(row),
        hiddenBy: row.cut,
        view: readView(db, row.n),
        messages: db
          .all<MessageRow & { cut: string }>("SELECT * FROM messages WHERE session = ? ORDER BY seq", row.n)
          .map((message) => ({ message: readMessage(db, message, row.id), hiddenBy: message.cut })),
      })),
      snapshots: db
        .all<SnapshotRow>("SELECT id, after, created_at FROM snapshots WHERE chain = ? ORDER BY n", original.n)
        .map(toSnapshot),
      runs: listRuns(db, { sessionId: original.id, limit: Infinity }).map(({ run }) => run),
      asks: listAsks(db, { sessionId: original.id, limit: Infinity }),
    };
  });
}

/** Inserts a chain. Must run in a transaction that holds the write lock; a throw rolls the transaction back. */
export function loadChain(db: Statements, { sessions, snapshots, runs, asks }: ChainData): void {
  let chainN = 0;
  for (const { session, hiddenBy: sessionHiddenBy, view, messages } of sessions) {
    const n = createSession(db, { session, messages: messages.map(({ message }) => message), view });
    chainN ||= n;
    if (sessionHiddenBy !== "") db.run("UPDATE sessions SET cut = ? WHERE n = ?", sessionHiddenBy, n);
    for (const { message, hiddenBy: messageHiddenBy } of messages)
      if (messageHiddenBy !== "")
        db.run("UPDATE messages SET cut = ? WHERE chain = ? AND seq = ?", messageHiddenBy, chainN, message.seq);
  }
  for (const snapshot of snapshots) db.insert("snapshots", { chain: chainN, ...toSnapshotRow(snapshot) });
  for (const run of runs) {
    if (db.get("SELECT 1 FROM runs WHERE id = ?", run.id)) throw new RunKeyTakenError(run.idempotencyKey);
    putRun(db, sessions[0]?.session.id ?? "", run, null);
  }
  for (const ask of asks) putAsk(db, sessions[0]?.session.id ?? "", ask);
}
