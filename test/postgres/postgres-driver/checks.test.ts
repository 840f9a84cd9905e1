import { after, before, describe, it } from "node:test";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { sessionDriverChecks } from "gantry/testing";
import { NO_POSTGRES, createPostgresSchema } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";
import { CommitBlocker } from "./hold.js";

// Each durability has its own schema.
describe("PostgresDriver", { concurrency: true, skip: NO_POSTGRES }, () => {
  for (const durability of ["full", "normal"] as const) {
    describe(`the SessionDriver contract of PostgresDriver with durability ${durability}`, { concurrency: 1 }, () => {
      let address = { url: "", schema: "" };
      let commitBlocker = new CommitBlocker(address);
      const cleanups: (() => unknown)[] = [];
      const openDriver = async (): Promise<PostgresDriver> => {
        const driver = new PostgresDriver(postgresOptions(address, { durability }));
        await driver.open();
        return driver;
      };
      before(async () => {
        address = await createPostgresSchema({ after: (cleanup) => void cleanups.push(cleanup) });
        commitBlocker = new CommitBlocker(address);
      });
      after(async () => {
        await commitBlocker.close();
        for (const cleanup of cleanups) await cleanup();
      });
      const checks = sessionDriverChecks({
        create: openDriver,
        second: openDriver,
        reopen: openDriver,
        // Empties the schema instead of dropping it: creating a schema takes longer than most checks.
        clean: () => commitBlocker.empty(),
        hold: (part) => commitBlocker.hold(part),
      });
      // The order of concurrent calls does not depend on the disk, so the race checks run once.
      for (const check of checks)
        if (durability === "normal" || !check.name.startsWith("race:")) it(check.name, () => check.run());
    });
  }
});
