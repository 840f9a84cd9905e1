import type { Database, Statement } from "better-sqlite3";

/**
 * All that better-sqlite3 ever made for us. Since Node 24.19 the process aborts when an object of better-sqlite3 12 is
 * collected as garbage outside of JavaScript (WiseLibs/better-sqlite3#1515), and version 13 no longer runs on Node 20:
 * so there is no garbage. It is a database and its statements for each time that a store is opened.
 */
const KEPT: (Database | Statement)[] = [];

export function keep<T extends Database | Statement>(one: T): T {
  KEPT.push(one);
  return one;
}

/** Prepare a statement; only for those that are cached by whoever calls, or that are few. */
export function prepare(db: Database, sql: string): Statement {
  return keep(db.prepare(sql));
}

/** The value of a pragma. For opening, not for what is done again and again: each call keeps a statement. */
export function readPragma(db: Database, pragma: string): unknown {
  return prepare(db, `PRAGMA ${pragma}`).pluck().get();
}

/** Set a pragma. `Database.pragma` would leave a statement behind with every call. */
export function setPragma(db: Database, pragma: string): void {
  db.exec(`PRAGMA ${pragma}`);
}
