import { describe, it } from "node:test";
import { MemoryDriver } from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import { sessionDriverChecks } from "gantry/testing";

/** The store of the current check. */
let store = new MemoryDocuments();

async function openDriver(): Promise<MemoryDriver> {
  const driver = new MemoryDriver(store);
  await driver.open();
  return driver;
}

describe("the session driver contract of MemoryDriver", () => {
  const checks = sessionDriverChecks({
    create: () => {
      store = new MemoryDocuments();
      return openDriver();
    },
    second: openDriver,
    reopen: openDriver,
    clean: () => Promise.resolve(),
  });
  for (const check of checks) it(check.name, () => check.run());
});
