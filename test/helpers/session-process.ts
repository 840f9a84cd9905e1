// A separate process that works on a session store; tests start it with `fork`. Usage: <driver> <path> <role> <args...>
import { writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import type { SessionDriver } from "gantry/plugin";
import { aGrowingMessage, aMessage, aSession, change } from "../../src/testing/session-driver/records.js";

const [driverName = "", path = "", role = "", ...args] = process.argv.slice(2);

const NUMBERS_PER_MESSAGE = 20;
const LEASE_MS = 60_000;

async function createDriver(): Promise<SessionDriver> {
  if (driverName === "sqlite") {
    const { SqliteDriver } = await import("gantry/adapters/sqlite-driver");
    return new SqliteDriver({ path });
  }
  if (driverName === "postgres") {
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
  const startMessage = new Promise((resolve) => process.once("message", resolve));
  process.send?.("ready");
  await startMessage;
}

const ROLES: Record<string, (driver: SessionDriver) => Promise<void>> = {
  /** Opens the store, lists one session and closes. */
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
   * Appends numbers to growing messages without end. Writes each number to stdout once the store has acknowledged the
   * number. Some writes are synced, so that the store has both kinds.
   */
  append: async (driver) => {
    const [id = ""] = args;
    await driver.open();
    await driver.create({ session: aSession(id) });
    for (let n = 0; ; n++) {
      const seq = Math.floor(n / NUMBERS_PER_MESSAGE) + 1;
      const add = n % NUMBERS_PER_MESSAGE === 0 ? [aGrowingMessage(id, seq)] : [];
      const append = [{ messageId: `${id}-${seq}`, part: 0, type: "text" as const, text: `${n};` }];
      await driver.write(id, change({ add, append, sync: n % 7 === 0 }));
      writeSync(1, `${n}\n`);
      if ((n + 1) % NUMBERS_PER_MESSAGE === 0) {
        const firstNumber = n + 1 - NUMBERS_PER_MESSAGE;
        const text = Array.from({ length: NUMBERS_PER_MESSAGE }, (_, index) => `${firstNumber + index};`).join("");
        const finish = [aMessage(id, seq, { role: "assistant", parts: [{ type: "text", text }] })];
        await driver.write(id, change({ finish, sync: true }));
      }
    }
  },
  /** Opens the store together with other processes, reports `open` or the error, and closes after a message. */
  hold: async (driver) => {
    await waitForStart();
    try {
      await driver.open();
    } catch (error) {
      process.send?.((error as Error).message);
      return;
    }
    const closeRequest = new Promise((resolve) => process.once("message", resolve));
    process.send?.("open");
    await closeRequest;
    await driver.close();
  },
  /** Acquires a lease under a name, reports the lease, and holds it until the process is killed. */
  lease: async (driver) => {
    const [root = "", name = ""] = args;
    await driver.open();
    const holder = { id: name, host: "host", boot: "boot", pid: process.pid, started: "" };
    const lease = await driver.lease(root, holder, LEASE_MS);
    process.send?.(lease);
    await sleep(LEASE_MS);
  },
};

const runRole = ROLES[role];
if (!runRole) throw new Error(`no role ${role}`);
await runRole(await createDriver());
process.disconnect?.();
