import { describe, it } from "node:test";
import { MemoryDriver } from "gantry";
import { MemoryDocuments } from "gantry/plugin";
import { sessionDriverChecks } from "gantry/testing";

/** The store of the current check. */
let store = new MemoryDocuments();

async function opened(): Promise<MemoryDriver> {
  const driver = new MemoryDriver(store);
  await driver.open();
  return driver;
}

describe("MemoryDriver keeps the contract", () => {
  const checks = sessionDriverChecks({
    create: () => {
      store = new MemoryDocuments();
      return opened();
    },
    second: opened,
    reopen: opened,
    clean: () => Promise.resolve(),
  });
  for (const check of checks) it(check.name, () => check.run());
});
