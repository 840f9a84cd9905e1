import { describe, it } from "node:test";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { sessionDriverChecks } from "gantry/testing";
import { NO_POSTGRES, postgresSchema } from "../helpers/postgres.js";
import { postgresOptions } from "../helpers/stores.js";

for (const durability of ["full", "normal"] as const) {
  describe(`PostgresDriver keeps the contract (durability ${durability})`, { skip: NO_POSTGRES }, () => {
    let place = { url: "", schema: "" };
    let clean = (): Promise<void> => Promise.resolve();
    const opened = async (): Promise<PostgresDriver> => {
      const driver = new PostgresDriver(postgresOptions(place, { durability }));
      await driver.open();
      return driver;
    };
    const checks = sessionDriverChecks({
      create: async () => {
        place = await postgresSchema({ after: (hook) => (clean = () => Promise.resolve(hook() as Promise<void>)) });
        return opened();
      },
      second: opened,
      reopen: opened,
      clean: () => clean(),
    });
    for (const check of checks) it(check.name, () => check.run());
  });
}
