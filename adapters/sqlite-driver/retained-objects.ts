import type { Database, Statement } from "better-sqlite3";

/**
 * All better-sqlite3 objects that this process created, retained against garbage collection. Since Node 24.19 the
 * process aborts if an object of better-sqlite3 12 is collected outside of JavaScript (WiseLibs/better-sqlite3#1515).
 * Version 13 no longer supports Node 20. The list grows by a database and its statements each time a store is opened.
 */
const RETAINED_OBJECTS: (Database | Statement)[] = [];

export function retain<T extends Database | Statement>(object: T): T {
  RETAINED_OBJECTS.push(object);
  return object;
}

/** Prepares and retains a statement. Only for statements that the caller caches or prepares a few times. */
export function prepare(db: Database, sql: string): Statement {
  return retain(db.prepare(sql));
}

/** Value of a pragma. Only for opening a store, because each call retains a statement. */
export function readPragma(db: Database, pragma: string): unknown {
  return prepare(db, `PRAGMA ${pragma}`).pluck().get();
}

/** Sets a pragma. `Database.pragma` would create a statement with every call. */
export function setPragma(db: Database, pragma: string): void {
  db.exec(`PRAGMA ${pragma}`);
}
