import type { ChainData, Message } from "gantry";
import { messageOf, sessionOf, snapshotOf } from "./rows.js";
import type { MessageRow, PieceRow, SessionRow, SnapshotRow } from "./rows.js";
import type { Statements } from "./statements.js";
import { createSession } from "./writes.js";

/** All of a chain as of one moment. */
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
        cut: row.cut,
        view: viewOf(db, row.n),
        messages: db
          .all<MessageRow & { cut: string }>("SELECT * FROM messages WHERE session = ? ORDER BY seq", row.n)
          .map((message) => ({
            message: messageOf(message, row.id, message.finished === 1 ? [] : piecesOf(db, message.n)),
            cut: message.cut,
            ...grownOf(db, message),
          })),
      })),
      snapshots: db
        .all<SnapshotRow>("SELECT id, after, created_at FROM snapshots WHERE chain = ? ORDER BY n", original.n)
        .map(snapshotOf),
    };
  });
}

/** Inside a transaction that holds the write lock; a throw undoes all of it. */
export function loadChain(db: Statements, { sessions, snapshots }: ChainData): void {
  let chain: number | undefined;
  for (const { session, cut, view, messages } of sessions) {
    createSession(
      db,
      session,
      messages.map(({ message }) => message),
      view,
      null,
    );
    const { n } = db.get<{ n: number }>("SELECT n FROM sessions WHERE id = ?", session.id) ?? { n: 0 };
    chain ??= n;
    if (cut !== "") db.run("UPDATE sessions SET cut = ? WHERE n = ?", cut, n);
    for (const { message, cut: hidden, grown } of messages) {
      if (hidden !== "") db.run("UPDATE messages SET cut = ? WHERE chain = ? AND seq = ?", hidden, chain, message.seq);
      if (grown) regrow(db, chain, message, grown);
    }
  }
  for (const { id, after, createdAt } of snapshots) {
    db.run(
      "INSERT INTO snapshots (chain, id, after, created_at) VALUES (?, ?, ?, ?)",
      chain ?? 0,
      id,
      after,
      createdAt,
    );
  }
}

function viewOf(db: Statements, session: number): Message[] {
  const row = db.get<{ messages: string }>("SELECT messages FROM views WHERE session = ?", session);
  return row ? (JSON.parse(row.messages) as Message[]) : [];
}

function piecesOf(db: Statements, message: number): PieceRow[] {
  return db.all<PieceRow>("SELECT part, type, text FROM pieces WHERE message = ? ORDER BY n", message);
}

/** Which index deltas give to the parts of a growing message, where it is not their place. */
function grownOf(db: Statements, row: MessageRow): { grown?: number[] } {
  if (row.finished === 1) return {};
  const began = (JSON.parse(row.parts) as unknown[]).length;
  const grown = new Set(Array.from({ length: began }, (_, index) => index));
  for (const { part } of piecesOf(db, row.n)) grown.add(part);
  const indexes = [...grown];
  return indexes.every((index, place) => index === place) ? {} : { grown: indexes };
}

/** Parts that deltas number in another way are kept as what they grew by. */
function regrow(db: Statements, chain: number, message: Message, grown: readonly number[]): void {
  const row = db.get<{ n: number }>("SELECT n FROM messages WHERE chain = ? AND seq = ?", chain, message.seq);
  const moved = grown.findIndex((index, place) => index !== place);
  if (!row || moved === -1) return;
  db.run("UPDATE messages SET parts = ? WHERE n = ?", JSON.stringify(message.parts.slice(0, moved)), row.n);
  message.parts.slice(moved).forEach((part, offset) => {
    // Only text grows.
    if (!("text" in part)) return;
    const values = [row.n, grown[moved + offset] ?? moved + offset, part.type, JSON.stringify(part.text)] as const;
    db.run("INSERT INTO pieces (message, part, type, text) VALUES (?, ?, ?, ?)", ...values);
  });
}
