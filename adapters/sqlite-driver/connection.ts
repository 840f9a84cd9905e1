import { chmodSync, closeSync, fchmodSync, fstatSync, fsyncSync, openSync, readSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { Database } from "better-sqlite3";
import { StoreError, type Logger } from "gantry";
import { createFolder } from "gantry/plugin";
import { keep, prepare, readPragma, setPragma } from "./retained-objects.js";
import { LOWER } from "./reads.js";
import type { SqliteOptions } from "./options.js";
import { APPLICATION_ID, checkVersion, migrate } from "./schema.js";

/** Longest that SQLite itself may block the event loop for a lock, in ms; all further waiting is asynchronous. */
const BUSY_MS = 5;
/** The write-ahead log is cut back to this size after a checkpoint, in bytes. */
const WAL_LIMIT = 16 * 1024 * 1024;
/** Older ones can corrupt a write-ahead log that several connections use. */
const OLDEST_SQLITE = [3, 51, 3] as const;

export interface Connection {
  readonly db: Database;
  /** Whether readers and a writer do not disturb each other. False on file systems that refuse it. */
  readonly wal: boolean;
}

/** Open the file and make it ready. `retry` runs a step again for as long as another process is in the way. */
export async function connect(
  options: SqliteOptions,
  logger: Logger | undefined,
  retry: <T>(step: () => T) => Promise<T>,
): Promise<Connection> {
  const { path } = options;
  prepareFile(path);
  const db = await openDatabase(path);
  try {
    // Even this prepares a statement, which looks at the file.
    await retry(() => checkSqlite(db));
    await retry(() => inspect(db, path));
    const mode = await retry(() => String(readPragma(db, "journal_mode = WAL")));
    const wal = mode === "wal";
    if (!wal) {
      logger?.warn(
        "the file system of the session store refuses a write-ahead log; readers and writers wait for each other",
        {
          path,
          journalMode: mode,
        },
      );
    }
    await retry(() => configure(db, wal, options.maxPages));
    await retry(() => migrate(db, path));
    db.function(LOWER, { deterministic: true }, (text) => String(text).toLowerCase());
    return { db, wal };
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Explicit on every open: none of these but the journal mode is kept in the file. */
function configure(db: Database, wal: boolean, maxPages: number | undefined): void {
  setPragma(db, `synchronous = ${wal ? "NORMAL" : "FULL"}`);
  setPragma(db, "secure_delete = ON");
  setPragma(db, `journal_size_limit = ${WAL_LIMIT}`);
  setPragma(db, "trusted_schema = OFF");
  setPragma(db, "foreign_keys = OFF");
  setPragma(db, "temp_store = MEMORY");
  if (maxPages !== undefined) setPragma(db, `max_page_count = ${Math.trunc(maxPages)}`);
}

/** The addon is loaded with the first database. */
async function openDatabase(path: string): Promise<Database> {
  try {
    const { default: Sqlite } = await import("better-sqlite3");
    return keep(new Sqlite(path, { timeout: BUSY_MS, nativeBinding: loadAddon() }));
  } catch (error) {
    const why = whyNotLoaded(error);
    if (why === undefined) throw error;
    throw new StoreError(
      `session store ${path}: better-sqlite3 cannot be loaded by Node ${process.version}: ${why}; ${remedy(error)}, ` +
        `or keep sessions elsewhere (--session-driver json)`,
      { cause: error },
    );
  }
}

function remedy(error: unknown): string {
  // A bundle does not hold the package.
  if (isMissing(error)) return "install it beside this program (npm install better-sqlite3)";
  return `build it for this Node (npm rebuild better-sqlite3${whereIs()})`;
}

function isMissing(error: unknown): boolean {
  const { code, message = "" } = (error ?? {}) as Partial<NodeJS.ErrnoException>;
  return code === "MODULE_NOT_FOUND" && message.includes("'better-sqlite3/package.json'");
}

/** What leads npm there, wherever it is typed. */
function whereIs(): string {
  try {
    const [folder] = packageFolder().split(/[\\/]node_modules[\\/]better-sqlite3$/);
    return folder ? ` --prefix ${/^[\w./:\\~-]+$/.test(folder) ? folder : JSON.stringify(folder)}` : "";
  } catch {
    return "";
  }
}

/**
 * Named, because the package's own search for it takes longer than all the rest of opening a file. Loaded here, because a
 * bundler replaces the `require` of the package's code.
 */
function loadAddon(): string {
  const file = join(packageFolder(), "build", "Release", "better_sqlite3.node");
  // An object, which the package takes and its types do not know.
  return createRequire(import.meta.url)(file) as string;
}

function packageFolder(): string {
  return dirname(createRequire(import.meta.url).resolve("better-sqlite3/package.json"));
}

/** Why the addon or its package cannot be loaded; undefined for what is no matter of loading. */
function whyNotLoaded(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const versions = /NODE_MODULE_VERSION (\d+)[\s\S]*NODE_MODULE_VERSION (\d+)/.exec(error.message);
  if (versions) return `it was built for another one (module version ${versions[1]}, wanted ${versions[2]})`;
  if (isMissing(error)) return "it is not installed";
  const { code } = error as NodeJS.ErrnoException;
  if (code === "MODULE_NOT_FOUND" && error.message.includes("better_sqlite3.node")) return "its native part is missing";
  if (code === "ERR_DLOPEN_FAILED" || code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND")
    return error.message.split("\n")[0];
  return undefined;
}

/**
 * Make the file and its folder for the owner's eyes alone, and refuse what is no store of ours before SQLite touches it.
 * At once, as SQLite itself works: a turn of the loop for each call would take longer than all of them.
 */
function prepareFile(path: string): void {
  const folder = dirname(path);
  const made = createFolder(folder);
  if (made !== undefined) chmodSync(folder, 0o700);
  const file = openSync(path, "a+", 0o600);
  try {
    const { mode, size } = fstatSync(file);
    // SQLite gives its -wal and -shm the mode of this file, whatever the umask.
    if ((mode & 0o777) !== 0o600) fchmodSync(file, 0o600);
    if (size > 0) {
      const header = Buffer.alloc(100);
      checkHeader(header, readSync(file, header, 0, 100, 0), path);
    } else syncFolder(folder);
  } finally {
    closeSync(file);
  }
  for (const beside of [`${path}-wal`, `${path}-shm`]) {
    try {
      if (((statSync(beside, { throwIfNoEntry: false })?.mode ?? 0o600) & 0o777) !== 0o600) chmodSync(beside, 0o600);
    } catch {
      // Another process has just taken it away, or it is not ours to change.
    }
  }
}

/** So that a power cut does not lose the file's name. */
function syncFolder(folder: string): void {
  const handle = openSync(folder, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** The header tells by itself what a file is; asking SQLite could already fold a write-ahead log into it. */
function checkHeader(buffer: Buffer, bytesRead: number, path: string): void {
  if (bytesRead < 100 || buffer.toString("latin1", 0, 16) !== "SQLite format 3\0") {
    throw new StoreError(
      `session store ${path}: the file is damaged or no database; it was left as it is: restore a copy, or move it away`,
    );
  }
  if (buffer.readUInt32BE(68) === APPLICATION_ID) checkVersion(buffer.readUInt32BE(60), path);
}

function checkSqlite(db: Database): void {
  const version = String(prepare(db, "SELECT sqlite_version()").pluck().get());
  const [major = 0, minor = 0, patch = 0] = version.split(".").map(Number);
  const [oldMajor, oldMinor, oldPatch] = OLDEST_SQLITE;
  const rank = (a: number, b: number, c: number): number => a * 1e6 + b * 1e3 + c;
  if (rank(major, minor, patch) >= rank(oldMajor, oldMinor, oldPatch)) return;
  throw new StoreError(
    `SQLite ${version} can corrupt a store that several processes use; update better-sqlite3 (SQLite ${OLDEST_SQLITE.join(".")} or newer)`,
  );
}

/** Read only: a file of a newer gantry, or of another program, is not ours to write. */
function inspect(db: Database, path: string): void {
  const tables = Number(prepare(db, "SELECT count(*) FROM sqlite_schema").pluck().get());
  const application = Number(readPragma(db, "application_id"));
  if (tables > 0 && application !== APPLICATION_ID) {
    throw new StoreError(
      `session store ${path}: a database of another program; it was left as it is: choose another session.path`,
    );
  }
  checkVersion(Number(readPragma(db, "user_version")), path);
}
