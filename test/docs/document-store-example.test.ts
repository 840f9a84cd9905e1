import { describe, it } from "node:test";
import { sessionDriverChecks } from "gantry/testing";
import { RedisDriver } from "../../examples/10-document-store.js";
import { FakeRedis } from "../helpers/fake-redis.js";

describe("the driver of the document store example", () => {
  let server = new FakeRedis();
  let address = "";
  const openDriver = async (): Promise<RedisDriver> => {
    const driver = new RedisDriver(address);
    await driver.open();
    return driver;
  };
  const checks = sessionDriverChecks({
    create: async () => {
      server = new FakeRedis();
      address = await server.listen();
      return openDriver();
    },
    second: openDriver,
    reopen: openDriver,
    clean: () => server.close(),
  });
  for (const check of checks) it(check.name, () => check.run());
});
