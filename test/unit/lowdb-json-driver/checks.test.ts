import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { LowdbJsonDriver } from "gantry/adapters/lowdb-json-driver";
import { sessionDriverChecks } from "gantry/testing";

describe("contract of the session driver LowdbJsonDriver", () => {
  let folder = "";
  const openDriver = async (): Promise<LowdbJsonDriver> => {
    // The checks write two thousand files, which takes too long with syncs. Other tests use syncs.
    const driver = new LowdbJsonDriver({ path: join(folder, "sessions"), durability: "normal" });
    await driver.open();
    return driver;
  };
  const checks = sessionDriverChecks({
    create: async () => {
      folder = await mkdtemp(join(tmpdir(), "gantry-json-"));
      return openDriver();
    },
    second: openDriver,
    reopen: openDriver,
    clean: () => rm(folder, { recursive: true, force: true }),
  });
  for (const check of checks) it(check.name, () => check.run());
});
