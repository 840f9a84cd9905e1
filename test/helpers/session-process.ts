// A separate process that works on a session store; tests start it with `fork`. Usage: <driver> <path> <role> <args...>
import { writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { SessionDriver } from "gantry/plugin";
import { aMessage, aSession, change, aGrowingMessage } from "../../src/testing/session-driver/rule.js";

const [kind = "", path = "", role = "", ...args] = process.argv.slice(2);

async function createDriver(): Promise<SessionDriver> {
  if (kind === "sqlite") {
    const { SqliteDriver } = await import("gantry/adapters/sqlite-driver");
    return new SqliteDriver({ path });
  }
  if (kind === "postgres") {
    const { PostgresDriver } = await import("gantry/adapters/postgres-driver");
    const { postgresOptions } = await import("./stores.js");
    const [url = "", schema = ""] = path.split(" ");
    return new PostgresDriver(postgresOptions({ url, schema }));
  }
  const { LowdbJsonDriver } = await import("gantry/adapters/lowdb-json-driver");
  return new LowdbJsonDriver({ path });
}

/**
 * Reports that everything is loaded and waits for the test's message, so that several processes start at the same time.
 */
async function waitForStart(): Promise<void> {
  const started = new Promise((resolve) => process.once("message", resolve));
  process.send?.("ready");
  await started;
}

const ROLES: Record<string, (driver: SessionDriver) => Promise<void>> = {
  /** Opens the store, lists and closes. */
  open: async (driver) => {
    await waitForStart();
    await driver.open();
    await driver.list({ limit: 1 });
    await driver.close();
  },
  /** Writes messages to its own session, and token usage to a shared one. */
  write: async (driver) => {
    const [id = "", count = "0", sharedSessionId = ""] = args;
    await driver.open();
    await waitForStart();
    await driver.create({ session: aSession(id) });
    for (let n = 1; n <= Number(count); n++) {
      const usage = { promptTokens: 1, completionTokens: 1, totalTokens: 2, cost: 0 };
      await driver.write(id, change({ add: [aMessage(id, n)], sync: n % 10 === 0 }));
      await driver.write(sharedSessionId, change({ usage }));
    }
    await driver.close();
  },
  /**
   * Appends numbers to growing messages without end, twenty to each. It writes each number to stdout once it is
   * acknowledged.
   */
  append: async (driver) => {
    const [id = ""] = args;
    await driver.open();
    await driver.create({ session: aSession(id) });
    for (let n = 0; ; n++) {
      const seq = Math.floor(n / 20) + 1;
      const add = n % 20 === 0 ? [aGrowingMessage(id, seq)] : [];
      const append = [{ messageId: `${id}-${seq}`, part: 0, type: "text" as const, text: `${n};` }];
      await driver.write(id, change({ add, append, sync: n % 7 === 0 }));
      writeSync(1, `${n}\n`);
      if (n % 20 === 19) {
        const text = Array.from({ length: 20 }, (_, index) => `${n - 19 + index};`).join("");
        const finish = [aMessage(id, seq, { role: "assistant", parts: [{ type: "text", text }] })];
        await driver.write(id, change({ finish, sync: true }));
      }
    }
  },
  /** Opens the store together with other processes, reports the result, and closes on request. */
  hold: async (driver) => {
    await waitForStart();
    try {
      await driver.open();
    } catch (error) {
      process.send?.((error as Error).message);
      return;
    }
    const closeRequested = new Promise((resolve) => process.once("message", resolve));
    process.send?.("open");
    await closeRequested;
    await driver.close();
  },
  /** Holds a lease under a name until it is killed. */
  lease: async (driver) => {
    const [root = "", name = ""] = args;
    await driver.open();
    const holder = { id: name, host: "host", boot: "boot", pid: process.pid, started: "" };
    const lease = await driver.lease(root, holder, 60_000);
    process.send?.(lease);
    await sleep(60_000);
  },
};

const runRole = ROLES[role];
if (!runRole) throw new Error(`no role ${role}`);
await runRole(await createDriver());
process.disconnect?.();
