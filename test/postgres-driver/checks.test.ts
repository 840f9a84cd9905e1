import { describe, it } from "node:test";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { sessionDriverChecks } from "gantry/testing";
import { NO_POSTGRES, postgresSchema } from "../helpers/postgres.js";
import { postgresOptions } from "../helpers/stores.js";
import { Holds } from "./hold.js";

for (const durability of ["full", "normal"] as const) {
  describe(`PostgresDriver keeps the contract (durability ${durability})`, { skip: NO_POSTGRES }, () => {
    let place = { url: "", schema: "" };
    let clean = (): Promise<void> => Promise.resolve();
    const opened = async (): Promise<PostgresDriver> => {
      const driver = new PostgresDriver(postgresOptions(place, { durability }));
      await driver.open();
      return driver;
    };
    let holds: Holds | undefined;
    const checks = sessionDriverChecks({
      create: async () => {
        holds = undefined;
        place = await postgresSchema({ after: (hook) => (clean = () => Promise.resolve(hook() as Promise<void>)) });
        return opened();
      },
      second: opened,
      reopen: opened,
      clean: async () => {
        await holds?.close();
        await clean();
      },
      hold: (part) => (holds ??= new Holds(place)).hold(part),
    });
    for (const check of checks) it(check.name, () => check.run());
  });
}
