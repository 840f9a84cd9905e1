import { after, before, describe, it } from "node:test";
import { PostgresDriver } from "gantry/adapters/postgres-driver";
import { sessionDriverChecks } from "gantry/testing";
import { NO_POSTGRES, postgresSchema } from "../../helpers/postgres.js";
import { postgresOptions } from "../../helpers/stores.js";
import { Holds } from "./hold.js";

for (const durability of ["full", "normal"] as const) {
  describe(`the SessionDriver contract of PostgresDriver with durability ${durability}`, { skip: NO_POSTGRES }, () => {
    let place = { url: "", schema: "" };
    let holds = new Holds(place);
    const ends: (() => unknown)[] = [];
    const opened = async (): Promise<PostgresDriver> => {
      const driver = new PostgresDriver(postgresOptions(place, { durability }));
      await driver.open();
      return driver;
    };
    before(async () => {
      place = await postgresSchema({ after: (end) => void ends.push(end) });
      holds = new Holds(place);
    });
    after(async () => {
      await holds.close();
      for (const end of ends) await end();
    });
    const checks = sessionDriverChecks({
      create: opened,
      second: opened,
      reopen: opened,
      // Empties the schema instead of dropping it: creating a schema takes longer than most checks.
      clean: () => holds.empty(),
      hold: (part) => holds.hold(part),
    });
    // The order of concurrent calls does not depend on the disk, so the race checks run once.
    for (const check of checks)
      if (durability === "normal" || !check.name.startsWith("race:")) it(check.name, () => check.run());
  });
}
