import { chmodSync, closeSync, fchmodSync, fstatSync, fsyncSync, openSync, readSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type { Database } from "better-sqlite3";
import { StoreError, type Logger } from "gantry";
import { createFolder, MeasuredClock } from "gantry/plugin";
import { retain, prepare, readPragma, setPragma } from "./retained-objects.js";
import { LOWER_CASE_FUNCTION } from "./session-list.js";
import type { SqliteOptions } from "./options.js";
import { APPLICATION_ID, checkVersion, migrate, SCHEMA_VERSION } from "./schema.js";

/**
 * Maximum time for which SQLite itself may block the event loop to wait for a lock, in ms. All further waiting is
 * asynchronous.
 */
const MAX_BLOCKING_MS = 5;
/** Size to which a checkpoint truncates the write-ahead log, in bytes. */
const MAX_WAL_BYTES = 16 * 1024 * 1024;
/** Older versions can corrupt a write-ahead log that several connections use. */
const MIN_SQLITE_VERSION = [3, 51, 3] as const;

// Header of an SQLite file (https://www.sqlite.org/fileformat.html).
const HEADER_BYTES = 100;
const USER_VERSION_OFFSET = 60;
const APPLICATION_ID_OFFSET = 68;

export interface OpenDatabase {
  readonly db: Database;
  /**
   * Whether the file has a write-ahead log, so that readers and a writer do not block each other. False if the file
   * system does not support a write-ahead log.
   */
  readonly hasWal: boolean;
  /** The clock of SQLite, as measured when the file was opened. */
  readonly clock: MeasuredClock;
}

/**
 * Creates, checks and migrates the file. `retry` repeats a step while another process blocks the file. Rejects with
 * `StoreError` if the package cannot be loaded or the file is not usable.
 */
export async function connect(
  options: SqliteOptions,
  logger: Logger | undefined,
  retry: <T>(step: () => T) => Promise<T>,
): Promise<OpenDatabase> {
  const { path } = options;
  prepareFile(path);
  const db = await openDatabase(path);
  try {
    // This check is retried too, because preparing the statement reads the file.
    const clock = new MeasuredClock();
    await retry(() => checkSqliteVersion(db, clock));
    await retry(() => rejectForeignFile(db, path));
    const journalMode = await retry(() => String(readPragma(db, "journal_mode = WAL")));
    const hasWal = journalMode === "wal";
    if (!hasWal) {
      logger?.warn(
        "the file system of the session store does not support a write-ahead log; readers and writers block each other",
        {
          path,
          journalMode,
        },
      );
    }
    await retry(() => configure(db, hasWal, options.maxPages));
    const version = await retry(() => Number(readPragma(db, "user_version")));
    if (version === 0 || version === SCHEMA_VERSION || options.migrationCopy === false)
      await retry(() => migrate(db, path));
    else {
      const { migrateWithCopy } = await import("./migration-copy.js");
      await migrateWithCopy(db, { path, openSource: () => openDatabase(path), retry, logger });
    }
    db.function(LOWER_CASE_FUNCTION, { deterministic: true }, (text) => String(text).toLowerCase());
    return { db, hasWal, clock };
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Sets the pragmas of a connection. The file stores only the journal mode. */
function configure(db: Database, hasWal: boolean, maxPages: number | undefined): void {
  setPragma(db, `synchronous = ${hasWal ? "NORMAL" : "FULL"}`);
  setPragma(db, "secure_delete = ON");
  setPragma(db, `journal_size_limit = ${MAX_WAL_BYTES}`);
  setPragma(db, "trusted_schema = OFF");
  setPragma(db, "foreign_keys = OFF");
  setPragma(db, "temp_store = MEMORY");
  if (maxPages !== undefined) setPragma(db, `max_page_count = ${Math.trunc(maxPages)}`);
}

/** Opens the database. The first call loads the native addon. */
async function openDatabase(path: string): Promise<Database> {
  try {
    const { default: Sqlite } = await import("better-sqlite3");
    return retain(new Sqlite(path, { timeout: MAX_BLOCKING_MS, nativeBinding: loadAddon() }));
  } catch (error) {
    const cause = describeLoadFailure(error);
    if (cause === undefined) throw error;
    throw new StoreError(
      `session store ${path}: better-sqlite3 cannot be loaded by Node ${process.version}: ${cause}; ${describeRemedy(error)}, ` +
        `or keep sessions elsewhere (--session-driver json)`,
      { cause: error },
    );
  }
}

function describeRemedy(error: unknown): string {
  // A bundled program does not include the package.
  if (isPackageMissing(error)) return "install it beside this program (npm install better-sqlite3)";
  return `build it for this Node (npm rebuild better-sqlite3${formatPrefixOption()})`;
}

function isPackageMissing(error: unknown): boolean {
  const { code, message = "" } = (error ?? {}) as Partial<NodeJS.ErrnoException>;
  return code === "MODULE_NOT_FOUND" && message.includes("'better-sqlite3/package.json'");
}

/** The `--prefix` option that lets npm find the package from any folder; `""` if the package's folder is unknown. */
function formatPrefixOption(): string {
  try {
    const [folder] = findPackageFolder().split(/[\\/]node_modules[\\/]better-sqlite3$/);
    return folder ? ` --prefix ${/^[\w./:\\~-]+$/.test(folder) ? folder : JSON.stringify(folder)}` : "";
  } catch {
    return "";
  }
}

/**
 * Loads the native addon of better-sqlite3. The path is explicit, because the package's own search takes longer than
 * all other steps of opening a file. This function has its own `require`, because a bundler replaces
 * the `require` of the package.
 */
function loadAddon(): string {
  const file = join(findPackageFolder(), "build", "Release", "better_sqlite3.node");
  // The addon is an object. The package accepts it, although its types require a path.
  return createRequire(import.meta.url)(file) as string;
}

function findPackageFolder(): string {
  return dirname(createRequire(import.meta.url).resolve("better-sqlite3/package.json"));
}

/** Describes why the addon or its package cannot be loaded; undefined for other errors. */
function describeLoadFailure(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const versions = /NODE_MODULE_VERSION (\d+)[\s\S]*NODE_MODULE_VERSION (\d+)/.exec(error.message);
  if (versions) return `it was built for another Node version (module version ${versions[1]}, required ${versions[2]})`;
  if (isPackageMissing(error)) return "it is not installed";
  const { code } = error as NodeJS.ErrnoException;
  if (code === "MODULE_NOT_FOUND" && error.message.includes("better_sqlite3.node")) return "its native part is missing";
  if (code === "ERR_DLOPEN_FAILED" || code === "ERR_MODULE_NOT_FOUND" || code === "MODULE_NOT_FOUND")
    return error.message.split("\n")[0];
  return undefined;
}

/**
 * Creates the file and its folder with access for the owner only. Rejects a file that is no database before SQLite
 * opens the file. Synchronous like SQLite itself: a turn of the event loop per call would take longer than all calls
 * together.
 */
function prepareFile(path: string): void {
  const folder = dirname(path);
  const createdFolder = createFolder(folder);
  if (createdFolder !== undefined) chmodSync(folder, 0o700);
  const file = openSync(path, "a+", 0o600);
  try {
    const { mode, size } = fstatSync(file);
    // SQLite gives its -wal and -shm files the mode of this file, independent of the umask.
    if ((mode & 0o777) !== 0o600) fchmodSync(file, 0o600);
    if (size > 0) {
      const header = Buffer.alloc(HEADER_BYTES);
      checkHeader(header, readSync(file, header, 0, HEADER_BYTES, 0), path);
    } else syncFolder(folder);
  } finally {
    closeSync(file);
  }
  for (const sideFile of [`${path}-wal`, `${path}-shm`]) {
    try {
      if (((statSync(sideFile, { throwIfNoEntry: false })?.mode ?? 0o600) & 0o777) !== 0o600)
        chmodSync(sideFile, 0o600);
    } catch {
      // Another process has just removed the file, or this user may not change its mode.
    }
  }
}

/** Syncs a folder, so that the name of a new file survives a power failure. */
function syncFolder(folder: string): void {
  const handle = openSync(folder, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/**
 * Rejects a file that is no database or belongs to a newer gantry. Needs only the header, because a query by SQLite
 * could already merge a write-ahead log into the file.
 */
function checkHeader(buffer: Buffer, bytesRead: number, path: string): void {
  if (bytesRead < HEADER_BYTES || buffer.toString("latin1", 0, 16) !== "SQLite format 3\0") {
    throw new StoreError(
      `session store ${path}: the file is damaged or not a database; it was not modified: restore a copy, or move it away`,
    );
  }
  if (buffer.readUInt32BE(APPLICATION_ID_OFFSET) === APPLICATION_ID)
    checkVersion(buffer.readUInt32BE(USER_VERSION_OFFSET), path);
}

function checkSqliteVersion(db: Database, clock: MeasuredClock): void {
  const startedAtMs = Date.now();
  const sql = "SELECT sqlite_version() AS version, unixepoch('subsec') * 1000 AS now";
  const { version, now } = prepare(db, sql).get() as { version: string; now: number };
  clock.update(now, startedAtMs);
  const [major = 0, minor = 0, patch = 0] = version.split(".").map(Number);
  const [minMajor, minMinor, minPatch] = MIN_SQLITE_VERSION;
  const toComparableVersion = (majorPart: number, minorPart: number, patchPart: number): number =>
    majorPart * 1e6 + minorPart * 1e3 + patchPart;
  if (toComparableVersion(major, minor, patch) >= toComparableVersion(minMajor, minMinor, minPatch)) return;
  throw new StoreError(
    `SQLite ${version} can corrupt a store that several processes use; update better-sqlite3 (SQLite ${MIN_SQLITE_VERSION.join(".")} or newer)`,
  );
}

/** Rejects a file of a newer gantry or of another program. Only reads, because such a file must not be modified. */
function rejectForeignFile(db: Database, path: string): void {
  const tableCount = Number(prepare(db, "SELECT count(*) FROM sqlite_schema").pluck().get());
  const applicationId = Number(readPragma(db, "application_id"));
  if (tableCount > 0 && applicationId !== APPLICATION_ID) {
    throw new StoreError(
      `session store ${path}: a database of another program; it was not modified: choose another session.path`,
    );
  }
  checkVersion(Number(readPragma(db, "user_version")), path);
}
