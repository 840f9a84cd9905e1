import { closeSync, fsyncSync, openSync, renameSync, rmSync, statfsSync } from "node:fs";
import { dirname } from "node:path";
import type { Database } from "better-sqlite3";
import { StoreError, type Logger } from "gantry";
import { readPragma } from "./retained-objects.js";
import { applyMigrations, checkVersion, SCHEMA_VERSION } from "./schema.js";

/** Free space that must remain for the migration itself, as a share of the file's size. */
const FREE_SPACE_SHARE = 0.5;
const BYTES_PER_MEGABYTE = 1024 * 1024;

export interface MigrationOptions {
  path: string;
  /** Opens another connection to the file, which reads while the first one holds the write lock. */
  openSource: () => Promise<Database>;
  /** Repeats a step while another process blocks the file. */
  retry: <T>(step: () => T) => Promise<T>;
  logger: Logger | undefined;
}

/**
 * Migrates a file that contains sessions, and keeps a copy of the old file beside it. The write lock is held throughout:
 * the copy is consistent, and one process makes it. Rejects with `StoreError`, without a change, if the disk has no
 * space for the copy.
 */
export async function migrateWithCopy(db: Database, options: MigrationOptions): Promise<void> {
  const { path, retry, logger } = options;
  await retry(() => db.exec("BEGIN IMMEDIATE"));
  let copyPath: string | undefined;
  try {
    const oldVersion = Number(readPragma(db, "user_version"));
    checkVersion(oldVersion, path);
    // Another process may have migrated the file meanwhile.
    if (oldVersion < SCHEMA_VERSION) {
      requireSpace(db, path, oldVersion);
      copyPath = `${path}.v${oldVersion}-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}Z`;
      await copyDatabase(options, copyPath);
      applyMigrations(db, oldVersion);
    }
    db.exec("COMMIT");
    if (copyPath !== undefined)
      logger?.info("the session store was migrated; a copy of the old file is kept", {
        path,
        copy: copyPath,
        fromVersion: oldVersion,
        toVersion: SCHEMA_VERSION,
      });
  } catch (error) {
    if (db.inTransaction) db.exec("ROLLBACK");
    // The file itself still has the old version.
    if (copyPath !== undefined) rmSync(copyPath, { force: true });
    throw error;
  }
}

/** Throws `StoreError` if the disk has no space for a copy of the file and for the migration. */
function requireSpace(db: Database, path: string, oldVersion: number): void {
  const fileBytes = Number(readPragma(db, "page_count")) * Number(readPragma(db, "page_size"));
  const { bavail, bsize } = statfsSync(dirname(path));
  const requiredBytes = fileBytes * (1 + FREE_SPACE_SHARE);
  if (bavail * bsize >= requiredBytes) return;
  const toMegabytes = (bytes: number) => Math.ceil(bytes / BYTES_PER_MEGABYTE);
  throw new StoreError(
    `session store ${path}: its migration from version ${oldVersion} keeps a copy and needs ${toMegabytes(requiredBytes)} MB, ` +
      `but the disk has ${toMegabytes(bavail * bsize)} MB; it was not modified: free space, or set session.migration_copy to false`,
    { isFull: true },
  );
}

/** Copies the committed content of the file. The copy appears under its name when it is complete and on the disk. */
async function copyDatabase({ path, openSource }: MigrationOptions, copyPath: string): Promise<void> {
  const partialPath = `${path}.partial-copy`;
  rmSync(partialPath, { force: true });
  // Created first, because SQLite would create the file readable for others.
  closeSync(openSync(partialPath, "wx", 0o600));
  const source = await openSource();
  try {
    await source.backup(partialPath);
    syncFile(partialPath);
    renameSync(partialPath, copyPath);
    syncFile(dirname(path));
  } catch (error) {
    rmSync(partialPath, { force: true });
    throw error;
  } finally {
    source.close();
  }
}

function syncFile(path: string): void {
  const handle = openSync(path, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
