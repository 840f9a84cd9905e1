import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { SqliteDriver, type SqliteOptions } from "gantry/adapters/sqlite-driver";
import { sessionDriverChecks } from "gantry/testing";

/** Registers a test for each check of the session driver kit, which runs on a SqliteDriver. */
export function checkSqliteDriver(durability: SqliteOptions["durability"]): void {
  describe(`SqliteDriver keeps the contract (durability ${durability})`, () => {
    let folder = "";
    const openDriver = async (): Promise<SqliteDriver> => {
      const driver = new SqliteDriver({ path: join(folder, "sessions.db"), durability });
      await driver.open();
      return driver;
    };
    const checks = sessionDriverChecks({
      create: async () => {
        folder = await mkdtemp(join(tmpdir(), "gantry-sqlite-"));
        return openDriver();
      },
      second: openDriver,
      reopen: openDriver,
      clean: () => rm(folder, { recursive: true, force: true }),
    });
    for (const check of checks) it(check.name, () => check.run());
  });
}
