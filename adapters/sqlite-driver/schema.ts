import type { Database } from "better-sqlite3";
import { StoreError } from "gantry";
import { readPragma, setPragma } from "./retained-objects.js";

/** The letters "gant", which identify the files of this driver. */
export const APPLICATION_ID = 0x67616e74;

/** The triggers that keep `totals`. `condition`: of the counted rows, by the name of the row. */
const createTotalsTriggers = (condition: (row: "NEW" | "OLD") => string): string =>
  `CREATE TRIGGER totals_insert AFTER INSERT ON sessions WHEN ${condition("NEW")} BEGIN
    UPDATE totals SET n = n + 1 WHERE scope = 'all';
    INSERT INTO totals VALUES ('dir:' || NEW.project_dir, 1) ON CONFLICT (scope) DO UPDATE SET n = n + 1;
  END;
  CREATE TRIGGER totals_delete AFTER DELETE ON sessions WHEN ${condition("OLD")} BEGIN
    UPDATE totals SET n = n - 1 WHERE scope = 'all';
    UPDATE totals SET n = n - 1 WHERE scope = 'dir:' || OLD.project_dir;
    DELETE FROM totals WHERE scope = 'dir:' || OLD.project_dir AND n = 0;
  END;
  CREATE TRIGGER totals_move AFTER UPDATE OF project_dir ON sessions
  WHEN ${condition("NEW")} AND OLD.project_dir <> NEW.project_dir BEGIN
    INSERT INTO totals VALUES ('dir:' || NEW.project_dir, 1) ON CONFLICT (scope) DO UPDATE SET n = n + 1;
    UPDATE totals SET n = n - 1 WHERE scope = 'dir:' || OLD.project_dir;
    DELETE FROM totals WHERE scope = 'dir:' || OLD.project_dir AND n = 0;
  END;
  `;

/** The column `reader` of a table with rows of chains, its indexes, and the trigger for new rows. */
const createReader = (table: string, time: string): string =>
  `ALTER TABLE ${table} ADD COLUMN reader TEXT NOT NULL DEFAULT '';
  CREATE INDEX ${table}_of_reader ON ${table} (reader, ${time}, id) WHERE reader <> '';
  CREATE INDEX ${table}_of_reader_state ON ${table} (reader, state, ${time}, id) WHERE reader <> '';
  CREATE TRIGGER ${table}_reader AFTER INSERT ON ${table}
  WHEN EXISTS (SELECT 1 FROM sessions WHERE id = NEW.root AND (shared = 1 OR owner <> '')) BEGIN
    UPDATE ${table} SET reader = (SELECT iif(shared, 'shared', 'owner:' || owner) FROM sessions WHERE id = NEW.root)
    WHERE id = NEW.id;
  END;
  `;

/** Updates the column `reader` of a table after a change of `shared` in the first session of a chain. */
const createReaderUpdate = (table: string): string =>
  `UPDATE ${table} SET reader = CASE WHEN NEW.shared THEN 'shared' WHEN NEW.owner <> '' THEN 'owner:' || NEW.owner ELSE '' END
    WHERE root = NEW.id;`;

/**
 * The migration with index `i` moves the file from version `i` to `i + 1`. Never change a released migration; add a new
 * migration. The comments are here, because every start loads the text:
 *
 * - `sessions`: `leave` and `cuts` are JSON lists, usually empty. `spawner`, `spawner_run` and `spawner_call`: the tool call
 *   that created a subagent session (root session, run and call); NULL for all other sessions.
 * - `messages`: `chain` is the `n` of the chain's first session, `session` the `n` of the message's session. `parts` was the
 *   last column of version 1, because it may be large. `shown`: the displayed part of a tool result, as JSON; usually empty.
 * - `pieces`: text appended to unfinished messages, in order of `n`. `text` is a JSON string, because two rows may split a
 *   surrogate pair.
 * - `fence`: one counter for the store, so that fences increase across releases and deletes.
 * - `totals`: number of root sessions that are not subagent sessions, in total (scope `all`) and by folder (`dir:` and its
 *   path). Lists contain the same sessions. The numbers include archived sessions.
 * - `runs`: `root` is the id of the chain's first session, `fence` of the lease of the last write, `record` all fields as
 *   JSON. `asks`: `ask` has all fields as JSON.
 * - `sessions_archived` begins with `archived`, so that SQLite prefers this index.
 * - `sessions`: `owner` is empty without an owner. Only sessions with an owner, or shared ones, are in the last two indexes.
 * - `runs`: `started_by` is the user who started the run, or empty.
 * - `runs` and `asks`: `reader` is `shared` in a shared chain, else `owner:` and the owner, else empty. Triggers keep it.
 *
 * The first search adds the tables and triggers of `search-index.ts`, without a migration. A migration that replaces
 * `messages`, `pieces` or `sessions` must first drop them.
 */
export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE sessions (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    alias TEXT NOT NULL,
    title TEXT NOT NULL,
    titled INTEGER NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    reasoning_effort TEXT NOT NULL,
    project_dir TEXT NOT NULL,
    parent_id TEXT NOT NULL,
    root TEXT NOT NULL,
    idx INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    total_tokens INTEGER NOT NULL,
    cost REAL NOT NULL,
    cut TEXT NOT NULL DEFAULT '',
    UNIQUE (root, idx)
  );
  CREATE UNIQUE INDEX sessions_alias ON sessions (alias) WHERE alias <> '';
  CREATE INDEX sessions_all ON sessions (updated_at, id) WHERE idx = 0;
  CREATE INDEX sessions_of_dir ON sessions (project_dir, updated_at, id) WHERE idx = 0;
  CREATE INDEX sessions_empty ON sessions (updated_at, id) WHERE idx = 0 AND last_seq = 0;

  CREATE TABLE messages (
    n INTEGER PRIMARY KEY,
    chain INTEGER NOT NULL,
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    cut TEXT NOT NULL DEFAULT '',
    finished INTEGER NOT NULL,
    id TEXT NOT NULL,
    role TEXT NOT NULL,
    tool_call_id TEXT NOT NULL,
    name TEXT NOT NULL,
    failed INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    parts TEXT NOT NULL,
    UNIQUE (chain, seq)
  );
  CREATE INDEX messages_of_session ON messages (session, seq);
  CREATE INDEX messages_growing ON messages (chain, id) WHERE finished = 0;
  CREATE INDEX messages_cut ON messages (chain, cut) WHERE cut <> '';

  CREATE TABLE pieces (
    n INTEGER PRIMARY KEY,
    message INTEGER NOT NULL,
    part INTEGER NOT NULL,
    type TEXT NOT NULL,
    text TEXT NOT NULL
  );
  CREATE INDEX pieces_of_message ON pieces (message);

  CREATE TABLE views (session INTEGER PRIMARY KEY, messages TEXT NOT NULL);

  CREATE TABLE snapshots (
    n INTEGER PRIMARY KEY,
    chain INTEGER NOT NULL,
    id TEXT NOT NULL,
    after INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    UNIQUE (chain, id)
  );

  CREATE TABLE leases (
    root TEXT PRIMARY KEY,
    fence INTEGER NOT NULL,
    holder_id TEXT NOT NULL,
    holder TEXT NOT NULL,
    expires_at INTEGER NOT NULL
  ) WITHOUT ROWID;

  CREATE TABLE fence (last INTEGER NOT NULL);
  INSERT INTO fence VALUES (0);

  CREATE TABLE totals (scope TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
  INSERT INTO totals VALUES ('all', 0);
  ${createTotalsTriggers((row) => `${row}.idx = 0`)}`,
  `
  CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    root TEXT NOT NULL,
    key TEXT NOT NULL,
    state TEXT NOT NULL,
    started_at TEXT NOT NULL,
    fence INTEGER,
    record TEXT NOT NULL
  ) WITHOUT ROWID;
  CREATE UNIQUE INDEX runs_key ON runs (key) WHERE key <> '';
  CREATE INDEX runs_all ON runs (started_at, id);
  CREATE INDEX runs_of_state ON runs (state, started_at, id);
  CREATE INDEX runs_of_chain ON runs (root, started_at, id);
  CREATE INDEX runs_of_chain_state ON runs (root, state, started_at, id);
  `,
  `
  ALTER TABLE sessions ADD COLUMN mode TEXT NOT NULL DEFAULT 'auto';
  ALTER TABLE sessions ADD COLUMN leave TEXT NOT NULL DEFAULT '[]';
  ALTER TABLE sessions ADD COLUMN cuts TEXT NOT NULL DEFAULT '[]';
  ALTER TABLE messages ADD COLUMN shown TEXT NOT NULL DEFAULT '';

  CREATE TABLE asks (
    id TEXT PRIMARY KEY,
    root TEXT NOT NULL,
    state TEXT NOT NULL,
    created_at TEXT NOT NULL,
    ask TEXT NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX asks_all ON asks (created_at, id);
  CREATE INDEX asks_of_chain ON asks (root, created_at, id);
  CREATE INDEX asks_open ON asks (created_at, id) WHERE state = 'open';

  CREATE TABLE instructions (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    root TEXT NOT NULL,
    instruction TEXT NOT NULL
  );
  CREATE INDEX instructions_of_chain ON instructions (root, n);
  `,
  `
  ALTER TABLE sessions ADD COLUMN spawner TEXT;
  ALTER TABLE sessions ADD COLUMN spawner_run TEXT;
  ALTER TABLE sessions ADD COLUMN spawner_call TEXT;
  DROP INDEX sessions_all;
  DROP INDEX sessions_of_dir;
  DROP INDEX sessions_empty;
  CREATE INDEX sessions_all ON sessions (updated_at, id) WHERE idx = 0 AND spawner IS NULL;
  CREATE INDEX sessions_of_dir ON sessions (project_dir, updated_at, id) WHERE idx = 0 AND spawner IS NULL;
  CREATE INDEX sessions_empty ON sessions (updated_at, id) WHERE idx = 0 AND spawner IS NULL AND last_seq = 0;
  CREATE INDEX sessions_spawned ON sessions (spawner, updated_at, id) WHERE idx = 0 AND spawner IS NOT NULL;
  DROP TRIGGER totals_insert;
  DROP TRIGGER totals_delete;
  DROP TRIGGER totals_move;
  ${createTotalsTriggers((row) => `${row}.idx = 0 AND ${row}.spawner IS NULL`)}`,
  `
  ALTER TABLE sessions ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
  DROP INDEX sessions_all;
  DROP INDEX sessions_of_dir;
  CREATE INDEX sessions_all ON sessions (updated_at, id, archived) WHERE idx = 0 AND spawner IS NULL;
  CREATE INDEX sessions_of_dir ON sessions (project_dir, updated_at, id, archived) WHERE idx = 0 AND spawner IS NULL;
  CREATE INDEX sessions_archived ON sessions (archived, updated_at, id, project_dir)
  WHERE idx = 0 AND spawner IS NULL AND archived = 1;
  `,
  `
  ALTER TABLE sessions ADD COLUMN owner TEXT NOT NULL DEFAULT '';
  ALTER TABLE sessions ADD COLUMN shared INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX sessions_of_owner ON sessions (owner, updated_at, id, archived, project_dir, spawner, idx)
  WHERE idx = 0 AND spawner IS NULL AND owner <> '';
  CREATE INDEX sessions_shared ON sessions (updated_at, id, archived, project_dir, owner, spawner, idx, shared)
  WHERE idx = 0 AND spawner IS NULL AND shared = 1;
  ${createReader("runs", "started_at")}${createReader("asks", "created_at")}
  CREATE TRIGGER readers_update AFTER UPDATE OF shared ON sessions WHEN NEW.idx = 0 AND OLD.shared <> NEW.shared BEGIN
    ${["runs", "asks"].map(createReaderUpdate).join(" ")}
  END;
  `,
  `
  ALTER TABLE runs ADD COLUMN started_by TEXT NOT NULL DEFAULT '';
  CREATE INDEX runs_of_user ON runs (started_by, started_at, id) WHERE started_by <> '';
  `,
];

/** Version of the files that this code reads and writes. */
export const SCHEMA_VERSION = MIGRATIONS.length;

/** Throws `StoreError` for a file of a newer gantry. */
export function checkVersion(version: number, path: string): void {
  if (version <= SCHEMA_VERSION) return;
  throw new StoreError(
    `session store ${path}: written by a newer gantry (version ${version}, this one supports ${SCHEMA_VERSION}); ` +
      "it was not modified: update gantry, or choose another session.path",
  );
}

/** Applies the migrations from a version. The caller has begun a transaction. */
export function applyMigrations(db: Database, oldVersion: number): void {
  db.exec(MIGRATIONS.slice(oldVersion).join(""));
  setPragma(db, `application_id = ${APPLICATION_ID}`);
  setPragma(db, `user_version = ${SCHEMA_VERSION}`);
}

/**
 * Migrates the file to `SCHEMA_VERSION`, without a copy. One transaction takes the write lock first and reads the version again, so
 * that any number of processes may open a new file at once. Throws SQLITE_BUSY while another process migrates.
 */
export function migrate(db: Database, path: string): void {
  const readVersion = (): number => Number(readPragma(db, "user_version"));
  if (readVersion() === SCHEMA_VERSION) return;
  db.transaction(() => {
    const oldVersion = readVersion();
    checkVersion(oldVersion, path);
    applyMigrations(db, oldVersion);
  }).immediate();
}
