import { closeSync, copyFileSync, existsSync, fstatSync, mkdtempSync, openSync, readSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { Database } from "better-sqlite3";
import { StoreError } from "gantry";
import { holderState, type LeaseHolder } from "gantry/plugin";
import { prepare } from "./retained-objects.js";
import { SCHEMA_VERSION } from "./schema.js";

/** Files above this size are not read completely. */
const MAX_CHECKED_BYTES = 512 * 1024 * 1024;
/** Path of a database without a file. */
const MEMORY = ":memory:";
// Header of an SQLite file (https://www.sqlite.org/fileformat.html).
const HEADER_BYTES = 100;
const MAGIC_TEXT = "SQLite format 3\0";
const PAGE_SIZE_OFFSET = 16;
const FREE_PAGES_OFFSET = 36;
const USER_VERSION_OFFSET = 60;
const MAX_REPORTED_FAULTS = 3;
const NO_RECORDS = { sessions: 0, orphanedLeases: 0, interruptedRuns: 0 };

interface FileSize {
  readonly bytes: number;
  /** Bytes of pages that deleted sessions have left, and that new ones use. */
  readonly freeBytes: number;
}

/** State of a store file, read without a change to it. */
export interface SqliteHealth extends FileSize {
  /** Faults of the file; undefined if the file is too large to be read completely. */
  readonly faults: readonly string[] | undefined;
  readonly sessions: number;
  /** Leases whose process has died. */
  readonly orphanedLeases: number;
  /** Runs that no live process continues. */
  readonly interruptedRuns: number;
}

/** Loads the native part. Resolves with the version of SQLite. Rejects with the reason of the system. */
export async function loadSqlite(): Promise<string> {
  const db = await openDatabase(MEMORY);
  try {
    return String((prepare(db, "SELECT sqlite_version() AS version").get() as { version: string }).version);
  } finally {
    db.close();
  }
}

/**
 * Inspects a store file. Rejects with `StoreError` if it is no store of gantry, or of a newer version, and with SQLite's
 * error for a file that cannot be read.
 *
 * Without the companion files of a running process, SQLite would create them. A copy is read in that case.
 */
export async function inspectStore(path: string): Promise<SqliteHealth> {
  const size = readHeader(path);
  if (existsSync(`${path}-shm`)) return inspectFile(path, size);
  if (size.bytes > MAX_CHECKED_BYTES) return { ...size, faults: undefined, ...NO_RECORDS };
  const folder = mkdtempSync(join(tmpdir(), "gantry-doctor-"));
  try {
    const copy = join(folder, "sessions.db");
    copyFileSync(path, copy);
    if (existsSync(`${path}-wal`)) copyFileSync(`${path}-wal`, `${copy}-wal`);
    return await inspectFile(copy, size);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Reads the header without SQLite, which could merge a write-ahead log into the file. */
function readHeader(path: string): FileSize {
  const file = openSync(path, "r");
  try {
    const { size: bytes } = fstatSync(file);
    const header = Buffer.alloc(HEADER_BYTES);
    if (bytes === 0) return { bytes, freeBytes: 0 };
    if (readSync(file, header, 0, HEADER_BYTES, 0) < HEADER_BYTES || !header.toString("latin1").startsWith(MAGIC_TEXT))
      throw new StoreError("the file is damaged or not a database");
    const version = header.readUInt32BE(USER_VERSION_OFFSET);
    if (version > SCHEMA_VERSION)
      throw new StoreError(`written by a newer gantry (version ${version}, this one supports ${SCHEMA_VERSION})`);
    // A page of 65,536 bytes is stored as 1, because the field has two bytes.
    const pageSize = header.readUInt16BE(PAGE_SIZE_OFFSET);
    return { bytes, freeBytes: header.readUInt32BE(FREE_PAGES_OFFSET) * (pageSize === 1 ? 65_536 : pageSize) };
  } finally {
    closeSync(file);
  }
}

/** Opens a database as the driver does, with the native part of the package for this Node. */
async function openDatabase(path: string): Promise<Database> {
  const { default: Sqlite } = await import("better-sqlite3");
  const require = createRequire(import.meta.url);
  const addon = join(
    dirname(require.resolve("better-sqlite3/package.json")),
    "build",
    "Release",
    "better_sqlite3.node",
  );
  // The addon is an object. The package accepts it, although its types require a path.
  return new Sqlite(path, { readonly: path !== MEMORY, nativeBinding: require(addon) as string });
}

async function inspectFile(path: string, size: FileSize): Promise<SqliteHealth> {
  if (size.bytes === 0) return { ...size, faults: [], ...NO_RECORDS };
  const db = await openDatabase(path);
  try {
    const faults = size.bytes > MAX_CHECKED_BYTES ? undefined : findFaults(db);
    return { ...size, faults, ...(faults && faults.length > 0 ? NO_RECORDS : countRecords(db)) };
  } finally {
    db.close();
  }
}

function findFaults(db: Database): string[] {
  const rows = prepare(db, `PRAGMA quick_check(${MAX_REPORTED_FAULTS})`).all() as { quick_check: string }[];
  return rows.map(({ quick_check: fault }) => fault).filter((fault) => fault !== "ok");
}

function countRecords(db: Database): Pick<SqliteHealth, "sessions" | "orphanedLeases" | "interruptedRuns"> {
  const count = prepare(db, "SELECT count(*) AS n FROM sessions WHERE idx = 0").get() as { n: number };
  const leases = prepare(db, "SELECT root, holder, expires_at FROM leases WHERE holder <> ''").all() as {
    root: string;
    holder: string;
    expires_at: number;
  }[];
  const isDead = (holder: string) => holderState(JSON.parse(holder) as LeaseHolder) === "dead";
  const deadLeases = leases.filter(({ holder }) => isDead(holder));
  const liveRoots = new Set(
    leases.filter((lease) => !deadLeases.includes(lease) && lease.expires_at > Date.now()).map(({ root }) => root),
  );
  const runs = prepare(db, "SELECT root FROM runs WHERE state IN ('running', 'waiting')").all() as { root: string }[];
  return {
    sessions: count.n,
    orphanedLeases: deadLeases.length,
    interruptedRuns: runs.filter(({ root }) => !liveRoots.has(root)).length,
  };
}
