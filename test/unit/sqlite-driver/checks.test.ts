import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { sessionDriverChecks } from "gantry/testing";

for (const durability of ["full", "normal"] as const) {
  describe(`SqliteDriver keeps the contract (durability ${durability})`, () => {
    let folder = "";
    const opened = async (): Promise<SqliteDriver> => {
      const driver = new SqliteDriver({ path: join(folder, "sessions.db"), durability });
      await driver.open();
      return driver;
    };
    const checks = sessionDriverChecks({
      create: async () => {
        folder = await mkdtemp(join(tmpdir(), "gantry-sqlite-"));
        return opened();
      },
      second: opened,
      reopen: opened,
      clean: () => rm(folder, { recursive: true, force: true }),
    });
    for (const check of checks) it(check.name, () => check.run());
  });
}
